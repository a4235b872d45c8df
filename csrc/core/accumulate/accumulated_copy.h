// Contiguous copies of parts of accumulated arrays, which hold what was added to them.
#pragma once

#include "core/memory/array_view.h"
#include "core/run/launch.h"

namespace kernelcore {

/// The elements of `view`, the array of `what`, that points [begin, end) of the grid may reach.
ArrayView reachable_part(const Accumulated& what, const ArrayView& view, const Grid& grid,
                         int64_t begin, int64_t end);

/// At least as many elements as any `reachable_part` of `points` points has.
int64_t most_reachable(const Accumulated& what, const ArrayView& view, const Grid& grid,
                       int64_t points);

/// The first point that reaches nothing of what points before `begin` do, where elements that a
/// point reaches lie within `rows` first indices. It is where a gang can start.
int64_t first_apart(const Grid& grid, int64_t begin, int64_t rows);

/// `view` as a kernel sees it that adds to `copy`, a contiguous copy of `part`, instead.
ArrayView redirected(const ArrayView& view, const ArrayView& part, void* copy, size_t item_bytes);

/// Fills `copy` with that which changes no number that it is added to.
void clear_copy(DType dtype, void* copy, int64_t count);

/// Adds `copy`, a contiguous copy of `part`, element by element, and clears it.
void merge_copy(DType dtype, const ArrayView& part, void* copy);

}  // namespace kernelcore
