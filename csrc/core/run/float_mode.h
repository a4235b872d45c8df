// The floating-point mode of a thread.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kernelcore {

/// Sets rounding to nearest, denormals and no traps, and restores the thread's mode at the end.
///
/// Frameworks flush denormals to zero on their threads, and new threads inherit that: results would
/// depend on the threads that run a kernel.
class StandardFloatMode {
 public:
  StandardFloatMode() : saved_(mode()) {
    if (is_changed()) set_mode(kStandard);
  }
  ~StandardFloatMode() {
    if (is_changed()) set_mode(saved_);
  }
  StandardFloatMode(const StandardFloatMode&) = delete;
  StandardFloatMode& operator=(const StandardFloatMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kStandard = _MM_MASK_MASK;
  static constexpr uint64_t kFlags = _MM_EXCEPT_MASK;
  static uint64_t mode() { return _mm_getcsr(); }
  static void set_mode(uint64_t mode) { _mm_setcsr(static_cast<unsigned int>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kStandard = 0;
  static constexpr uint64_t kFlags = 0;
  static uint64_t mode() {
    uint64_t found = 0;
    asm volatile("mrs %0, fpcr" : "=r"(found));
    return found;
  }
  static void set_mode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr uint64_t kStandard = 0;
  static constexpr uint64_t kFlags = 0;
  static uint64_t mode() { return kStandard; }
  static void set_mode(uint64_t) {}
#endif

  bool is_changed() const { return (saved_ & ~kFlags) != kStandard; }

  const uint64_t saved_;
};

}  // namespace kernelcore
