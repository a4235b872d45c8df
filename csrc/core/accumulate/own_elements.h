// Arrays whose elements the chunks of a launch divide: each adds whole sums to its own.
#pragma once

#include "core/run/launch.h"

namespace kernelcore {

/// The rows of elements that chunks divide among them, a few each, where the loop that adds to them
/// has `trips` iterations; 0: they divide none.
int64_t divided_rows(const Accumulated& what, const Launch& launch, int64_t trips);
/// The same of a launch with these arguments.
int64_t divided_rows(const LaunchDescriptor& descriptor, const Accumulated& what, const void* block,
                     const Launch& launch);

}  // namespace kernelcore
