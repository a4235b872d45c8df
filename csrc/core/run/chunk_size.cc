#include "core/run/chunk_size.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "core/accumulate/accumulated_copy.h"
#include "core/accumulate/own_elements.h"
#include "core/memory/argument_block.h"
#include "core/memory/array_view.h"

namespace kernelcore {
namespace {

constexpr int64_t kMinChunkPoints = 64;
// For accumulated windows, where the head of a chunk costs more than its other points.
constexpr int64_t kMaxWindowChunkPoints = 65536;
constexpr int64_t kTargetChunks = 64;
// From this many additions per point on, a chunk of few points takes long enough
// (docs/decisions/288).
constexpr int64_t kManyAdditions = 1024;
// Row tiling runs up to this many rows of a chunk together. Shorter rows hold no whole gang; larger
// chunks would leave threads idle at the end.
constexpr int64_t kTileRows = 8;
constexpr int64_t kMinRowPoints = 64;
constexpr int64_t kMaxGrowth = 4;
// Where additions are gathered, the copies that a chunk adds to take as long as this many rows.
constexpr int64_t kGatheredRows = 64;
constexpr int64_t kMinGatheredChunks = 4;
// Rows up to this many points are one chunk where smaller ones would copy more elements than they
// have points (docs/decisions/246).
constexpr int64_t kMostPointsOfOne = 262'144;
// Chunks grow until they pay for their copies, but a run keeps at least this many: points may do
// more than add, and many threads may share them (docs/decisions/301).
constexpr int64_t kMinCopyingChunks = 16;
// Where each index on the first axis has elements of its own, chunks of whole ones need no copies.
constexpr int64_t kLeastSlices = 16;
// Runs of few rows that take at most as long are one chunk: threads would save little.
constexpr int64_t kShortNs = 2'000'000;
// Tiles that take longer are cut, as nothing interrupts a chunk.
constexpr int64_t kLongestTileNs = 500'000'000;

int64_t chunk_points(const LaunchDescriptor& descriptor, const Launch& launch, int64_t least,
                     int64_t most) {
  int64_t even = (launch.total + kTargetChunks - 1) / kTargetChunks;
  int64_t chunk = std::clamp(rounded_up(even, 64), least, most);
  if (descriptor.grid_rank < 2) return chunk;
  int64_t row = launch.grid.dims[descriptor.grid_rank - 1];
  int64_t tile = kTileRows * row;
  bool pays = row >= kMinRowPoints && tile <= kMaxGrowth * chunk;
  return pays ? rounded_up(chunk, tile) : chunk;
}

/// `chunk`, enlarged to the rows whose additions pay for the copies of a chunk, or until it needs
/// none.
int64_t gathered_points(const LaunchDescriptor& descriptor, const Launch& launch, int64_t chunk) {
  int64_t row = launch.grid.dims[descriptor.grid_rank - 1];
  int64_t most = launch.total / kMinGatheredChunks / row * row;
  int64_t found = std::max(chunk, std::min(kGatheredRows * row, most));
  int64_t count = launch.grid.dims[0];
  bool is_apart = std::ranges::all_of(descriptor.accumulated, [&](const Accumulated& what) {
    Accumulated reached = descriptor.reached(what, launch.grid);
    return reached.axis >= 0 && reached.low == 0 && reached.high == 0;
  });
  if (is_apart && count >= kLeastSlices) found = rounded_up(found, launch.total / count);
  return found;
}

/// The points of the smallest chunk that adds to arrays: the time that its copies take is little.
int64_t least_accumulating(const LaunchDescriptor& descriptor) {
  int64_t additions = 0;
  for (const Accumulated& what : descriptor.accumulated) additions += what.weight;
  return additions < kManyAdditions ? kInlinePoints : kMinChunkPoints;
}

/// The points of a chunk that adds to arrays, if chunks divide no elements.
int64_t accumulating_points(const LaunchDescriptor& descriptor, const Launch& launch) {
  bool has_window = std::ranges::any_of(descriptor.accumulated, [&](const Accumulated& what) {
    return descriptor.reached(what, launch.grid).axis >= 0;
  });
  int64_t most = has_window ? kMaxWindowChunkPoints : kMaxChunkPoints;
  int64_t chunk = chunk_points(descriptor, launch, least_accumulating(descriptor), most);
  bool gathers = std::ranges::any_of(descriptor.accumulated, &Accumulated::is_gathered);
  return gathers ? gathered_points(descriptor, launch, chunk) : chunk;
}

/// `chunk`, enlarged until each chunk adds to a tile of the elements that chunks divide.
int64_t dividing_points(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
                        int64_t chunk) {
  int64_t row = launch.grid.dims[descriptor.grid_rank - 1];
  for (const Accumulated& what : descriptor.accumulated) {
    int64_t tiles = divided_rows(descriptor, what, block, launch) / kTileRows;
    if (tiles == 0) continue;
    chunk = std::max(chunk, rounded_up((launch.total + tiles - 1) / tiles, row));
  }
  return chunk;
}

/// `chunk`, enlarged until its additions pay for the copies of whole arrays that it adds to.
int64_t copying_points(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
                       int64_t chunk) {
  int64_t found = chunk;
  size_t bytes = 0;
  for (const Accumulated& what : descriptor.accumulated) {
    const ParameterSlot& slot = descriptor.slots[what.parameter];
    bool has_window = descriptor.reached(what, launch.grid).axis >= 0;
    if (has_window || traits_of(slot.dtype).kind != ScalarKind::kFloat) continue;
    int64_t elements = read_array(static_cast<const std::byte*>(block), slot).numel();
    std::optional<size_t> end = end_of_copy(what, slot.dtype, elements, chunk, bytes);
    if (!end) continue;
    bytes = *end;
    found =
        std::max(found, kAdditionsPerCopiedElement * elements / std::max(what.weight, int64_t{1}));
  }
  return std::max(chunk, std::min(found, launch.total / kMinCopyingChunks) / chunk * chunk);
}

/// `chunk`, enlarged to the rows that pay for the copies of gathered sums, where these are large.
int64_t unshared_points(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
                        int64_t chunk) {
  bool has_large = std::ranges::any_of(descriptor.accumulated, [&](const Accumulated& what) {
    const ParameterSlot& slot = descriptor.slots[what.parameter];
    return what.is_gathered && descriptor.reached(what, launch.grid).axis < 0 &&
           read_array(static_cast<const std::byte*>(block), slot).numel() > chunk;
  });
  if (!has_large) return chunk;
  int64_t rows = kGatheredRows * launch.grid.dims[descriptor.grid_rank - 1];
  return rows <= kMostPointsOfOne ? std::max(chunk, rows) : chunk;
}

}  // namespace

int64_t points_of_chunk(const LaunchDescriptor& descriptor, const Launch& launch) {
  if (!descriptor.accumulated.empty()) return accumulating_points(descriptor, launch);
  return chunk_points(descriptor, launch, kMinChunkPoints, kMaxChunkPoints);
}

int64_t points_with_copies(const LaunchDescriptor& descriptor, const void* block,
                           const Launch& launch) {
  int64_t chunk = copying_points(descriptor, block, launch, points_of_chunk(descriptor, launch));
  chunk = unshared_points(descriptor, block, launch, chunk);
  return dividing_points(descriptor, block, launch, chunk);
}

int64_t panel_points(const LaunchDescriptor& descriptor, const Launch& launch, int64_t chunk) {
  const int64_t* dims = launch.grid.dims + descriptor.grid_rank - 2;
  if (dims[0] < descriptor.panel_rows) return chunk;
  int64_t point_ps = std::atomic_ref(descriptor.point_ps).load(std::memory_order_relaxed);
  // Rows that fill no tile are one chunk where these are too short to share.
  int64_t tile_rows = std::max<int64_t>(descriptor.panel_rows, kTileRows);
  int64_t tile = std::min(tile_rows, dims[0]) * dims[1];
  if (point_ps > kLongestTileNs * 1000 / tile) return chunk;
  bool is_short = point_ps > 0 && point_ps < kShortNs * 1000 / launch.total;
  if (dims[0] < kTileRows && !is_short) return chunk;
  // Twice the rows that pay for tiles.
  bool has_few_rows = launch.total <= 2 * tile_rows * dims[1];
  return is_short && has_few_rows ? launch.total : rounded_up(chunk, tile);
}

}  // namespace kernelcore
