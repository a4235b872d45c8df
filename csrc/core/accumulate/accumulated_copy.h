// Contiguous copies of parts of accumulated arrays, into which chunks or workers add.
#pragma once

#include <optional>

#include "core/memory/array_view.h"
#include "core/run/launch.h"

namespace kernelcore {

// Clearing and merging one element of a copy costs a third of a scattered addition.
inline constexpr int64_t kAdditionsPerCopiedElement = 8;

/// `size_bytes` rounded up to cache lines.
constexpr size_t aligned(size_t size_bytes) {
  return (size_bytes + 63) / 64 * 64;
}

/// Where the copy ends that a chunk of `points` has of `elements` elements of `what`, behind
/// `bytes` of others; none if it does not pay, or there would be too many bytes.
std::optional<size_t> end_of_copy(const Accumulated& what, DType dtype, int64_t elements,
                                  int64_t points, size_t bytes);

/// The elements of `view`, the array of `what`, to which points [begin, end) of the grid may add.
ArrayView reachable_part(const Accumulated& what, const ArrayView& view, const Grid& grid,
                         int64_t begin, int64_t end);

/// An upper bound of the elements in a `reachable_part` of `points` points.
int64_t most_reachable(const Accumulated& what, const ArrayView& view, const Grid& grid,
                       int64_t points);

/// The first point that shares no element with points before `begin`, if a point adds to a window
/// of `rows` first indices. Rounded up to a point at which a gang can start.
int64_t first_apart(const Grid& grid, int64_t begin, int64_t rows);

/// `view` with its memory replaced by `copy`, a contiguous copy of `part`.
ArrayView redirected(const ArrayView& view, const ArrayView& part, void* copy);

/// Fills `copy` with the neutral element of addition.
void clear_copy(DType dtype, void* copy, int64_t count);

/// Adds `copy`, a contiguous copy of `part`, to `part` and clears it.
void merge_copy(DType dtype, const ArrayView& part, void* copy);

}  // namespace kernelcore
