// How long work takes.
#pragma once

#include <chrono>
#include <cstdint>

namespace kernelcore {

using Clock = std::chrono::steady_clock;

/// The nanoseconds since `start`.
inline int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

/// Does `work`, and returns the nanoseconds that it took.
template <typename Work>
int64_t nanoseconds_of(const Work& work) {
  auto start = Clock::now();
  work();
  return nanoseconds_since(start);
}

}  // namespace kernelcore
