// What snippets for GPUs have in the place of headers of the C++ library.
namespace std {

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long long;
using size_t = decltype(sizeof(0));
using ptrdiff_t = long long;

using ::abs, ::fabs, ::sqrt, ::cbrt, ::hypot, ::exp, ::exp2, ::expm1, ::log, ::log2, ::log10;
using ::log1p, ::pow, ::sin, ::cos, ::tan, ::asin, ::acos, ::atan, ::atan2, ::sinh, ::cosh, ::tanh;
using ::asinh, ::acosh, ::atanh, ::erf, ::erfc, ::floor, ::ceil, ::trunc, ::round, ::rint, ::fmod;
using ::fma, ::fmin, ::fmax, ::copysign, ::isnan, ::isinf, ::isfinite;

template <class T> void swap(T& a, T& b) {
  T old = a;
  a = b;
  b = old;
}
template <class T> const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> const T& max(const T& a, const T& b) { return a < b ? b : a; }

}  // namespace std

using std::int16_t, std::int32_t, std::int64_t, std::int8_t;
using std::uint16_t, std::uint32_t, std::uint64_t, std::uint8_t;

namespace kc {

template <int Bytes> struct word {
  using type = unsigned;
};
template <> struct word<8> {
  using type = unsigned long long;
};

/// Adds to an element that other threads may add to; what it was before.
template <class T> T atomic_add(T& element, T value) {
  // GPUs compare and exchange words of 4 and 8 bytes: smaller elements are parts of one.
  using Word = typename word<sizeof(T)>::type;
  std::size_t address = reinterpret_cast<std::size_t>(&element);
  Word* whole = reinterpret_cast<Word*>(address - address % sizeof(Word));
  int shift = static_cast<int>(address % sizeof(Word)) * 8;
  Word mask = static_cast<Word>(~Word(0) >> (8 * (sizeof(Word) - sizeof(T)))) << shift;
  Word before = *static_cast<volatile Word*>(whole);
  for (;;) {
    Word part = (before & mask) >> shift;
    T old, sum;
    memcpy(&old, &part, sizeof(T));
    sum = static_cast<T>(old + value);
    part = 0;
    memcpy(&part, &sum, sizeof(T));
    Word found = atomicCAS(whole, before, (before & ~mask) | (part << shift));
    if (found == before) return old;
    before = found;
  }
}
inline int atomic_add(int& element, int value) { return atomicAdd(&element, value); }
inline unsigned atomic_add(unsigned& element, unsigned value) {
  return atomicAdd(&element, value);
}
inline float atomic_add(float& element, float value) { return atomicAdd(&element, value); }
inline double atomic_add(double& element, double value) { return atomicAdd(&element, value); }

}  // namespace kc
