// Memory of data arrays, aligned as every library requires, with counts of what is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kernelcore {

/// Zeroed memory aligned to 64 bytes, as JAX requires of memory that it shares; null if out of
/// memory.
std::shared_ptr<void> allocate_zeroed(size_t size_bytes);

/// Counts since the process started.
struct AllocationCounts {
  int64_t count;
  int64_t size_bytes;
  int64_t live_count;
  int64_t live_bytes;
  int64_t peak_bytes;  // the maximum of live_bytes since `restart_peak`
};

AllocationCounts allocation_counts();

/// Sets the peak to the live bytes, at least `least_bytes`.
void restart_peak(int64_t least_bytes);

}  // namespace kernelcore
