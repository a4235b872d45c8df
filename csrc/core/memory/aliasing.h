// Whether arrays alias: the only such checks, for launches, Tapes, adjoints and adapters.
#pragma once

#include "core/launch_descriptor.h"
#include "core/memory/array_view.h"

namespace kernelcore {

/// Whether no two indices of `view` reach the same element; may be false for exotic strides.
bool is_distinct(const ArrayView& view);

/// Whether two arrays may have an element in common. False for arrays that interleave, such as the
/// columns of a matrix.
bool may_overlap(const ArrayView& first, const ArrayView& second);

/// Whether two indices of `view` certainly reach the same element; only pairs of axes are compared.
bool repeats_elements(const ArrayView& view);

/// Whether no noalias parameter of `descriptor` shares an element with another array, or with
/// itself under another index. `views` has an entry a parameter; entries of values are ignored.
bool keeps_noalias(const LaunchDescriptor& descriptor, const ArrayView* views);

}  // namespace kernelcore
