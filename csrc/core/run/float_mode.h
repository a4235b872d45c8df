// The floating-point mode of a thread.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kernelcore {

/// Sets rounding to nearest and no traps, and what becomes of denormals; restores the thread's mode
/// at the end.
///
/// Frameworks flush denormals to zero on their threads, and new threads inherit that: results would
/// depend on the threads that run a kernel.
class FloatMode {
 public:
  explicit FloatMode(bool flush_denormals)
      : saved_(mode()), wanted_(kStandard | (flush_denormals ? kFlush : 0)) {
    if (is_changed()) set_mode(wanted_);
  }
  ~FloatMode() {
    if (is_changed()) set_mode(saved_);
  }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kStandard = _MM_MASK_MASK;
  // Results (FTZ), and operands (DAZ).
  static constexpr uint64_t kFlush = _MM_FLUSH_ZERO_ON | 0x0040;
  static constexpr uint64_t kFlags = _MM_EXCEPT_MASK;
  static uint64_t mode() { return _mm_getcsr(); }
  static void set_mode(uint64_t mode) { _mm_setcsr(static_cast<unsigned int>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kStandard = 0;
  static constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR.FZ: operands and results
  static constexpr uint64_t kFlags = 0;
  static uint64_t mode() {
    uint64_t found = 0;
    asm volatile("mrs %0, fpcr" : "=r"(found));
    return found;
  }
  static void set_mode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr uint64_t kStandard = 0;
  static constexpr uint64_t kFlush = 0;
  static constexpr uint64_t kFlags = 0;
  static uint64_t mode() { return kStandard; }
  static void set_mode(uint64_t) {}
#endif

  bool is_changed() const { return (saved_ & ~kFlags) != wanted_; }

  const uint64_t saved_;
  const uint64_t wanted_;
};

}  // namespace kernelcore
