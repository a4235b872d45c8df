// How long work takes.
#pragma once

#include <chrono>
#include <cstdint>

namespace kernelcore {

/// Does `work`, and returns the nanoseconds that it took.
template <typename Work>
int64_t nanoseconds_of(const Work& work) {
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  work();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

}  // namespace kernelcore
