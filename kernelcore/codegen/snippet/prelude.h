// What snippets see of values and arrays. Access says what an element may be used for.
#ifndef __CUDACC_RTC__
#include <cmath>
#include <cstddef>
#include <cstdint>
#endif

namespace kc {

template <class T, int N> struct vector {
  T c[N];
  T& operator[](int i) { return c[i]; }
  T operator[](int i) const { return c[i]; }
};
template <class T> struct vector<T, 2> {
  T x, y;
  T& operator[](int i) { return i == 0 ? x : y; }
  T operator[](int i) const { return i == 0 ? x : y; }
};
template <class T> struct vector<T, 3> {
  T x, y, z;
  T& operator[](int i) { return i == 0 ? x : i == 1 ? y : z; }
  T operator[](int i) const { return i == 0 ? x : i == 1 ? y : z; }
};
template <class T> struct vector<T, 4> {
  T x, y, z, w;
  T& operator[](int i) { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
  T operator[](int i) const { return i == 0 ? x : i == 1 ? y : i == 2 ? z : w; }
};
template <class T, int R, int C> struct matrix {
  T c[R * C];
  T& operator()(int i, int j) { return c[i * C + j]; }
  T operator()(int i, int j) const { return c[i * C + j]; }
};

#ifndef __CUDACC_RTC__
/// Adds to an element that other threads may add to; what it was before.
template <class T> T atomic_add(T& element, T value) {
  T old;
  __atomic_load(&element, &old, __ATOMIC_RELAXED);
  T sum = old + value;
  while (!__atomic_compare_exchange(&element, &old, &sum, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
    sum = old + value;
  return old;
}
#endif

struct Read {
  template <class T> using pointer = const T*;
  template <class T> static const T* moved(const T* p, std::int64_t size_bytes) {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(p) + size_bytes);
  }
  template <class T> static T at(const T* p) { return *p; }
};
struct Writable {
  template <class T> using pointer = T*;
  template <class T> static T* moved(T* p, std::int64_t size_bytes) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(p) + size_bytes);
  }
};
struct Write : Writable {
  template <class T> struct element {
    T* p;
    void operator=(T value) const { *p = value; }
  };
  template <class T> static element<T> at(T* p) { return {p}; }
};
struct Update : Writable {
  template <class T> static T& at(T* p) { return *p; }
};
/// An array of cotangents.
struct Sum : Writable {
  template <class T> struct element {
    T* p;
    operator T() const { return *p; }
    void operator=(T value) const { *p = value; }
    void operator+=(T value) const { atomic_add(*p, value); }
    void operator-=(T value) const { atomic_add(*p, -value); }
  };
  template <class T> static element<T> at(T* p) { return {p}; }
};

/// A strided array of N dimensions; strides are in bytes.
template <class Access, class T, int N> struct array {
  using pointer = typename Access::template pointer<T>;
  pointer data;
  std::int64_t shape[N];
  std::int64_t strides[N];

  decltype(auto) operator[](std::int64_t i) const {
    pointer p = moved(i, 0);
    if constexpr (N == 1) {
      return Access::at(p);
    } else {
      array<Access, T, N - 1> inner{p, {}, {}};
      for (int a = 1; a < N; ++a) {
        inner.shape[a - 1] = shape[a];
        inner.strides[a - 1] = strides[a];
      }
      return inner;
    }
  }
  template <class... Rest> decltype(auto) operator()(std::int64_t i, Rest... rest) const {
    static_assert(sizeof...(Rest) + 1 == N, "one index per dimension");
    if constexpr (N == 1)
      return (*this)[i];
    else
      return (*this)[i](static_cast<std::int64_t>(rest)...);
  }

 private:
  pointer moved(std::int64_t i, int axis) const {
    return Access::template moved<T>(data, i * strides[axis]);
  }
};

/// Cotangents that nobody asked for: zero, and sums into them are dropped.
template <class T, int N> struct absent {
  absent<T, (N > 1 ? N - 1 : 0)> operator[](std::int64_t) const { return {}; }
  template <class... I> absent<T, 0> operator()(I...) const { return {}; }
};
template <class T> struct absent<T, 0> {
  operator T() const { return T(0); }
  void operator=(T) const {}
  void operator+=(T) const {}
  void operator-=(T) const {}
};

}  // namespace kc
