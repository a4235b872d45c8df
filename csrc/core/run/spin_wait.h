// Waiting without sleeping.
#pragma once

#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace kernelcore {

/// Tells the processor that the thread is spinning.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `done()`, giving the processor away when that takes long.
template <class Predicate>
void spin_until(Predicate done) {
  constexpr int kSpins = 2000;
  for (int spins = 0; !done(); ++spins) {
    if (spins < kSpins) {
      cpu_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace kernelcore
