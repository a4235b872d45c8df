// Memory that data arrays own, at addresses that every library takes, and how much there is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kernelcore {

/// Zeroed memory at a multiple of 64 bytes, as JAX asks of what it shares; null if there is none.
std::shared_ptr<void> allocate_zeroed(size_t size_bytes);

/// What was allocated since the process started.
struct AllocationCounts {
  int64_t count;
  int64_t size_bytes;
  int64_t live_count;
  int64_t live_bytes;
  int64_t peak_bytes;  // the most that was live since `restart_peak`
};

AllocationCounts allocation_counts();

/// Sets the peak to what is live, or to `least_bytes` if that is more.
void restart_peak(int64_t least_bytes);

}  // namespace kernelcore
