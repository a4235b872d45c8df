#include "core/run/launch.h"

#include <algorithm>
#include <optional>

#include "core/accumulate/accumulated_copy.h"
#include "core/accumulate/accumulating_run.h"
#include "core/accumulate/own_elements.h"
#include "core/error.h"
#include "core/memory/argument_block.h"
#include "core/memory/array_view.h"
#include "core/run/float_mode.h"
#include "core/run/sharing.h"
#include "core/run/stopwatch.h"

namespace kernelcore {
namespace {

constexpr int64_t kMinChunkPoints = 64;
constexpr int64_t kMaxChunkPoints = 16384;
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
// Chunks grow until they pay for their copies, but a run keeps at least this many: points may do
// more than add, and many threads may share them (docs/decisions/301).
constexpr int64_t kMinCopyingChunks = 16;
// Where each index on the first axis has elements of its own, chunks of whole ones need no copies.
constexpr int64_t kLeastSlices = 16;
// A thread of several claims at most this many chunks at once: later ones may take longer than the
// first, which was timed. Where calls of the kernel make panels for their rows, it claims more, and
// not fewer than these rows, which take about as long as panels (docs/decisions/283).
constexpr int64_t kMostAtOnce = 4;
constexpr int64_t kPanelRows = 32;
// Runs of few rows that take at most as long are one chunk: threads would save little.
constexpr int64_t kShortNs = 2'000'000;
// Tiles that take longer are cut, as nothing interrupts a chunk.
constexpr int64_t kLongestTileNs = 500'000'000;

// A run of few points is shared where these take long, a chunk of a multiple of these points for
// each thread: of gangs with more lanes, smaller chunks would be parts, which take as long as whole
// ones. To know, one of so many runs is timed.
constexpr int64_t kFewChunkPoints = 16;
constexpr uint32_t kRunsPerTimed = 64;

constexpr int64_t rounded_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

// Depends only on the kernel and its grid: results must not change with the number of threads.
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
  bool is_apart = std::ranges::all_of(descriptor.accumulated, [](const Accumulated& what) {
    return what.axis >= 0 && what.low == 0 && what.high == 0;
  });
  if (is_apart && count >= kLeastSlices) found = rounded_up(found, launch.total / count);
  return found;
}

int64_t timed(ChunkedRun& chunked) {
  return nanoseconds_of([&] { chunked.claim_one(); });
}

void note_few(const LaunchDescriptor& descriptor, int64_t nanoseconds, int64_t points) {
  std::atomic_ref(descriptor.few_point_ns).store(nanoseconds / points, std::memory_order_relaxed);
}

/// Runs all points on this thread.
void run_inline(const LaunchDescriptor& descriptor, const void* block, const Launch& launch) {
  auto run = [&] { descriptor.fn(block, &launch.grid, 0, launch.total); };
  std::atomic_ref runs(descriptor.few_runs);
  uint32_t turn = runs.load(std::memory_order_relaxed);
  runs.store(turn + 1, std::memory_order_relaxed);
  if (turn % kRunsPerTimed != 0) {
    run();
  } else {
    note_few(descriptor, nanoseconds_of(run), launch.total);
  }
}

/// How many threads few points are worth, as far as earlier runs tell. Sums have one thread, which
/// gives them the order that one chunk has, and so have texts that are printed. The executor is
/// asked last: its answer takes longer than most runs of few points.
int64_t threads_of_few(const LaunchDescriptor& descriptor, int64_t points, Executor& executor) {
  int64_t point_ns = std::atomic_ref(descriptor.few_point_ns).load(std::memory_order_relaxed);
  int64_t shared_ns = point_ns * (points - kFewChunkPoints);
  if ((shared_ns < kLeastDispatchNs && !is_sharing_eager()) || !descriptor.accumulated.empty() ||
      descriptor.is_serial || descriptor.may_block) {
    return 1;
  }
  int64_t chunks = (points + kFewChunkPoints - 1) / kFewChunkPoints;
  int64_t threads = std::min(executor.max_threads(), chunks);
  return threads > 1 && pays_to_dispatch(shared_ns, threads, threads, executor) ? threads : 1;
}

/// Runs few points that take long on `threads` threads.
void run_few(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
             int64_t threads, Executor& executor) {
  int64_t share = (launch.total + threads - 1) / threads;
  ChunkedRun chunked(descriptor.fn, block, &launch.grid, launch.total,
                     rounded_up(share, kFewChunkPoints), descriptor.flush_denormals);
  chunked.share_evenly(threads, 1, chunked.chunks());
  int64_t nanoseconds = nanoseconds_of([&] { executor.run(chunked); });
  note_few(descriptor, nanoseconds * threads, launch.total);
}

/// `chunk`, enlarged to whole tiles of rows, or to all rows where each call would make panels for
/// few. What a point took in an earlier run tells whether a chunk would be too long: nothing
/// interrupts it, nor is it shared.
int64_t panel_points(const LaunchDescriptor& descriptor, const Launch& launch, int64_t chunk) {
  const int64_t* dims = launch.grid.dims + descriptor.grid_rank - 2;
  if (dims[0] < descriptor.panel_rows) return chunk;
  int64_t point_ps = std::atomic_ref(descriptor.point_ps).load(std::memory_order_relaxed);
  // Rows that fill no tile are one chunk where these are too short to share.
  int64_t tile = std::min(kTileRows, dims[0]) * dims[1];
  if (point_ps > kLongestTileNs * 1000 / tile) return chunk;
  bool is_short = point_ps > 0 && point_ps < kShortNs * 1000 / launch.total;
  if (dims[0] < kTileRows && !is_short) return chunk;
  // Two tiles, or twice the rows that pay for panels.
  int64_t few_rows = 2 * std::max<int64_t>(descriptor.panel_rows, kTileRows);
  bool has_few_rows = launch.total <= few_rows * dims[1];
  return is_short && has_few_rows ? launch.total : rounded_up(chunk, tile);
}

void run_chunked(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
                 Executor& executor) {
  int64_t chunk = points_of_chunk(descriptor, launch);
  bool has_panels = descriptor.panel_rows > 0;
  if (has_panels) chunk = panel_points(descriptor, launch, chunk);
  ChunkedRun chunked(descriptor.fn, block, &launch.grid, launch.total, chunk,
                     descriptor.flush_denormals, launch.windows);
  auto [threads, left_ns] =
      choose_sharing(descriptor, launch, chunked, executor.max_threads(), executor);
  // Copies for one chunk stay in the cache.
  int64_t most = launch.windows == nullptr ? chunked.chunks() : 1;
  if (threads == 1) {
    // Runs are interrupted between calls of the kernel.
    int64_t pieces = left_ns / kLongNs + 1;
    chunked.claim_rest(std::min(most, (chunked.chunks() + pieces - 1) / pieces));
    return note_time(descriptor, launch, chunked);
  }
  int64_t least = 1;
  if (has_panels) {
    int64_t rows = kPanelRows * launch.grid.dims[descriptor.grid_rank - 1];
    least = std::min((rows + chunk - 1) / chunk, most);
  } else {
    least = std::clamp<int64_t>((descriptor.points_at_once + chunk - 1) / chunk, 1, most);
    most = std::min(most, std::max(least, kMostAtOnce));
  }
  chunked.share_evenly(threads, least, most);
  executor.run(chunked);
  note_time(descriptor, launch, chunked);
}

/// The number of threads, up to `threads`, that is fastest: logging additions or making them with
/// atomic instructions may cost more than a thread saves. The sums are the same.
int64_t threads_that_pay(AccumulatingRun& chunked, int64_t threads) {
  constexpr int64_t kTrialChunks = 8;
  if (!chunked.has_detours(threads) || is_sharing_eager()) return threads;
  int64_t few = chunked.has_detours(chunked.sequences()) ? 1 : chunked.sequences();
  if (chunked.chunks() < kTrialChunks) return few;
  AccumulatingRun::Cost shared = chunked.try_shared();
  int64_t few_ns = timed(chunked) / few;
  int64_t each_ns = (shared.concurrent_ns + shared.ordered_ns) / threads;
  int64_t ordered_ns = shared.ordered_ns / chunked.sequences();
  return std::max(each_ns, ordered_ns) * 10 < few_ns * 9 ? threads : few;
}

/// The points of the smallest chunk that adds to arrays: the time that its copies take is little.
int64_t least_accumulating(const LaunchDescriptor& descriptor) {
  int64_t additions = 0;
  for (const Accumulated& what : descriptor.accumulated) additions += what.weight;
  return additions < kManyAdditions ? kInlinePoints : kMinChunkPoints;
}

/// The points of a chunk that adds to arrays, if chunks divide no elements.
int64_t accumulating_points(const LaunchDescriptor& descriptor, const Launch& launch) {
  bool has_window = std::ranges::any_of(descriptor.accumulated,
                                        [](const Accumulated& what) { return what.axis >= 0; });
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
    if (what.axis >= 0 || traits_of(slot.dtype).kind != ScalarKind::kFloat) continue;
    int64_t elements = read_array(static_cast<const std::byte*>(block), slot).numel();
    std::optional<size_t> end = end_of_copy(what, slot.dtype, elements, chunk, bytes);
    if (!end) continue;
    bytes = *end;
    found =
        std::max(found, kAdditionsPerCopiedElement * elements / std::max(what.weight, int64_t{1}));
  }
  return std::max(chunk, std::min(found, launch.total / kMinCopyingChunks) / chunk * chunk);
}

void run_accumulating(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
                      Executor& executor) {
  int64_t chunk = copying_points(descriptor, block, launch, points_of_chunk(descriptor, launch));
  chunk = dividing_points(descriptor, block, launch, chunk);
  AccumulatingRun chunked(descriptor, block, launch, chunk);
  int64_t most = chunked.is_alone() ? 1 : executor.max_threads();
  int64_t threads = choose_sharing(descriptor, launch, chunked, most, executor).threads;
  int64_t helpful = threads > 1 && chunked.share(threads) ? threads_that_pay(chunked, threads) : 1;
  if (helpful > 1) {
    chunked.open(helpful);
    executor.run(chunked);
  } else {
    chunked.claim_all();
  }
  note_time(descriptor, launch, chunked);
  chunked.finish();
}

}  // namespace

int64_t points_of_chunk(const LaunchDescriptor& descriptor, const Launch& launch) {
  if (!descriptor.accumulated.empty()) return accumulating_points(descriptor, launch);
  return chunk_points(descriptor, launch, kMinChunkPoints, kMaxChunkPoints);
}

Launch make_launch(const LaunchDescriptor& descriptor, std::span<const int64_t> dims) {
  auto fail = [&](const std::string& expected, const std::string& found,
                  const char* help = "give the number of threads along each dimension") {
    throw descriptor.launch_error("grid: expected " + expected + ", found " + found, help);
  };
  auto rank = static_cast<int>(dims.size());
  if (rank > kMaxGridDims || (descriptor.grid_rank != 0 && rank != descriptor.grid_rank)) {
    int expected = descriptor.grid_rank == 0 ? kMaxGridDims : descriptor.grid_rank;
    std::string at_most = descriptor.grid_rank == 0 ? "at most " : "";
    fail(at_most + std::to_string(expected) + (expected == 1 ? " dimension" : " dimensions"),
         std::to_string(rank), "launch over as many dimensions as the kernel asks tid() for");
  }
  Launch launch;
  std::fill_n(launch.grid.dims, kMaxGridDims, int64_t{1});
  launch.total = 1;
  bool overflow = false;
  bool empty = false;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] < 0) fail("extents of at least 0", std::to_string(dims[k]));
    if (dims[k] >= kExtentLimit) fail("extents below 2**31", std::to_string(dims[k]));
    launch.grid.dims[k] = dims[k];
    empty |= dims[k] == 0;
    overflow |= __builtin_mul_overflow(launch.total, dims[k], &launch.total);
  }
  if (empty) {
    launch.total = 0;
  } else if (overflow) {
    fail("fewer than 2**63 points", "more");
  }
  if (descriptor.grid_rank == 0) {
    // Such a kernel is compiled for one axis and runs once per point of any grid.
    std::fill_n(launch.grid.dims, kMaxGridDims, int64_t{1});
    launch.grid.dims[0] = launch.total;
  }
  return launch;
}

void check_extent(const LaunchDescriptor& descriptor, const GridIndexedAxis& indexed,
                  const ArrayView& array, const Launch& launch) {
  int64_t needed = launch.grid.dims[indexed.grid_axis];
  int64_t found = array.shape[indexed.axis];
  if (found >= needed || launch.total == 0) return;
  throw descriptor.argument_error(indexed.parameter,
                                  "expected at least " + std::to_string(needed) +
                                      " elements on axis " + std::to_string(indexed.axis) +
                                      ", which the launch indexes, found " + std::to_string(found),
                                  "launch over fewer points, or give a larger array");
}

void check_covered(const LaunchDescriptor& descriptor, const GridIndexedAxis& covered,
                   const ArrayView& array, const Launch& launch) {
  int64_t points = launch.grid.dims[covered.grid_axis];
  int64_t found = array.shape[covered.axis];
  if (found <= points) return;
  std::string name = descriptor.parameter_name(covered.parameter);
  bool is_written = descriptor.slots[covered.parameter].is_written();
  throw descriptor.argument_error(
      covered.parameter,
      "expected at most " + std::to_string(points) + " elements on axis " +
          std::to_string(covered.axis) + ", as many as the launch has, found " +
          std::to_string(found) + ": the rest would not be computed",
      "name the shape of the launch, for example launch_dims='" + name + "'" +
          (is_written ? ", or that of the output, output_dims, in a function of launches" : ""));
}

void run(const LaunchDescriptor& descriptor, const void* block, Launch& launch,
         Executor& executor) {
  if (descriptor.fn == nullptr) {
    throw Error(ErrorKind::kInternal, descriptor.name + "(): no code for the CPU");
  }
  if (launch.total == 0) return;
  // A kernel that fails writes the words that its message has places for.
  int64_t status[kStatusWords];
  status[0] = 0;
  launch.grid.status = status;
  FloatMode mode(descriptor.flush_denormals);
  bool is_few = launch.total <= kInlinePoints;
  int64_t few_threads = is_few ? threads_of_few(descriptor, launch.total, executor) : 0;
  bool is_inline = few_threads == 1;
  if (is_inline && !descriptor.may_block) {
    run_inline(descriptor, block, launch);
  } else {
    InterruptScope scope(status);
    if (descriptor.may_block || descriptor.is_serial) expect_interrupts();
    if (is_inline) {
      descriptor.fn(block, &launch.grid, 0, launch.total);
    } else if (is_few) {
      expect_interrupts();
      run_few(descriptor, block, launch, few_threads, executor);
    } else if (descriptor.is_serial) {
      ChunkedRun(descriptor.fn, block, &launch.grid, launch.total, kMaxChunkPoints).claim_all();
    } else if (!descriptor.accumulated.empty()) {
      run_accumulating(descriptor, block, launch, executor);
    } else {
      run_chunked(descriptor, block, launch, executor);
    }
  }
  if (status[0] != 0) throw descriptor.run_error(status);
}

}  // namespace kernelcore
