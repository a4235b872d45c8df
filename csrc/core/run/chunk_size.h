// How many points of a grid are a chunk.
#pragma once

#include <cstdint>

#include "core/launch_descriptor.h"
#include "core/run/launch.h"

namespace kernelcore {

inline constexpr int64_t kMaxChunkPoints = 16384;

constexpr int64_t rounded_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// The points of each chunk but the last one, in a kernel without panels or squares. It depends
/// only on the kernel and its grid: results must not change with the number of threads.
int64_t points_of_chunk(const LaunchDescriptor& descriptor, const Launch& launch);

/// The same of a run that adds to arrays, whose chunks pay for the copies that they add to.
int64_t points_with_copies(const LaunchDescriptor& descriptor, const void* block,
                           const Launch& launch);

/// `chunk`, enlarged to whole tiles of rows, which are squares or have panels, or to all rows where
/// each call would run few. What a point took in an earlier run tells whether a chunk would be too
/// long: nothing interrupts it, nor is it shared.
int64_t panel_points(const LaunchDescriptor& descriptor, const Launch& launch, int64_t chunk);

}  // namespace kernelcore
