#include "core/accumulate/own_elements.h"

#include "core/memory/argument_block.h"

namespace kernelcore {
namespace {

// Kernels multiply the points of a launch by the rows of elements that chunks divide.
constexpr int64_t kMaxDividedPoints = int64_t{1} << 31;
// Chunks take tiles of eight rows. Each reads all rows of the grid, so that these may not be many
// more than the rows of elements (docs/decisions/299).
constexpr int64_t kLeastDividedRows = 32;
constexpr int64_t kMostRowsSummed = 4;

}  // namespace

int64_t divided_rows(const Accumulated& what, const Launch& launch, int64_t trips) {
  int64_t rows = what.own_axis < 0 ? trips : launch.grid.dims[what.own_axis];
  bool pays = rows >= kLeastDividedRows && launch.grid.dims[0] <= kMostRowsSummed * rows;
  return pays && trips >= what.least_trips && launch.total <= kMaxDividedPoints ? rows : 0;
}

int64_t divided_rows(const LaunchDescriptor& descriptor, const Accumulated& what, const void* block,
                     const Launch& launch) {
  if (!what.can_divide()) return 0;
  const ParameterSlot& slot = descriptor.slots[static_cast<size_t>(what.loop_parameter)];
  ArrayView loop = read_array(static_cast<const std::byte*>(block), slot);
  return divided_rows(what, launch, loop.shape[what.loop_axis]);
}

}  // namespace kernelcore
