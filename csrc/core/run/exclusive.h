// Whether arrays share memory in ways that compiled code must know of.
#pragma once

#include "core/launch_descriptor.h"
#include "core/memory/array_view.h"

namespace kernelcore {

/// Whether two arrays may have an element in common; not where they interleave.
bool may_overlap(const ArrayView& first, size_t first_item_bytes, const ArrayView& second,
                 size_t second_item_bytes);

/// Whether two indices of `view` certainly reach the same element. Views in which only three axes
/// together do are not found.
bool repeats_elements(const ArrayView& view);

/// Whether no exclusive parameter of `descriptor` shares an element with another array, or with
/// itself under another index. `views` are one per parameter; those of values are not looked at.
bool keeps_exclusive(const LaunchDescriptor& descriptor, const ArrayView* views);

}  // namespace kernelcore
