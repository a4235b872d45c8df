// Copies of strided arrays to contiguous memory.
#pragma once

#include "core/memory/array_view.h"

namespace kernelcore {

/// Copies `source` element by element, in row-major order, to contiguous memory.
void copy_to_contiguous(void* target, const ArrayView& source);

}  // namespace kernelcore
