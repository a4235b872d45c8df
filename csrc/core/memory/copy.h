// Moving whole arrays: strided to contiguous copies and clearing.
#pragma once

#include "core/memory/array_view.h"

namespace kernelcore {

/// Copies `source` element by element, in row-major order, to contiguous memory.
void copy_to_contiguous(void* target, const ArrayView& source, size_t item_bytes);

/// Clears contiguous memory of `numel` elements.
void zero_fill(void* target, int64_t numel, size_t item_bytes);

}  // namespace kernelcore
