#include "core/run/launch.h"

#include <algorithm>

#include "core/accumulate/accumulating_run.h"
#include "core/error.h"
#include "core/memory/argument_block.h"
#include "core/memory/array_view.h"
#include "core/run/chunk_size.h"
#include "core/run/float_mode.h"
#include "core/run/sharing.h"
#include "core/run/stopwatch.h"

namespace kernelcore {
namespace {

// A thread of several claims at most this many chunks at once: later ones may take longer than the
// first, which was timed. Where calls of the kernel make panels for their rows, it claims more, and
// not fewer than these rows, which take about as long as panels (docs/decisions/283).
constexpr int64_t kMostAtOnce = 4;
constexpr int64_t kPanelRows = 32;
// Panels are claimed with as much of a share as took so long in the last run, all at once.
constexpr int64_t kShortShareNs = 1'000'000;
// A run of few points is shared where these take long, a chunk of a multiple of these points for
// each thread: of gangs with more lanes, smaller chunks would be parts, which take as long as whole
// ones. To know, one of so many runs is timed.
constexpr int64_t kFewChunkPoints = 16;
constexpr uint32_t kRunsPerTimed = 64;

/// Whether no thread has failed or been interrupted.
bool is_complete(const Launch& launch) {
  return std::atomic_ref(*launch.grid.status).load(std::memory_order_relaxed) == 0;
}

/// Keeps for later runs what this one took, unless it failed or was interrupted.
void note_run(const LaunchDescriptor& descriptor, const Launch& launch, const ChunkedRun& chunked,
              const Sharing& sharing, int64_t used, Clock::time_point start) {
  if (!is_complete(launch) || chunked.point_ps() == 0) return;
  note_time(descriptor, launch, chunked);
  int64_t alone_ns = chunked.point_ps() * launch.total / 1000;
  compare_threads(descriptor, launch, sharing, used, nanoseconds_since(start), alone_ns);
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

void run_chunked(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
                 Executor& executor) {
  int64_t chunk = points_of_chunk(descriptor, launch);
  bool has_panels = descriptor.panel_rows > 0;
  if (has_panels) chunk = panel_points(descriptor, launch, chunk);
  ChunkedRun chunked(descriptor.fn, block, &launch.grid, launch.total, chunk,
                     descriptor.flush_denormals, launch.windows);
  auto start = Clock::now();
  Sharing sharing = choose_sharing(descriptor, launch, chunked, executor.max_threads(), executor);
  // Copies for one chunk stay in the cache.
  int64_t most = launch.windows == nullptr ? chunked.chunks() : 1;
  if (sharing.threads == 1) {
    // Runs are interrupted between calls of the kernel.
    int64_t pieces = sharing.left_ns / kLongNs + 1;
    chunked.claim_rest(std::min(most, (chunked.chunks() + pieces - 1) / pieces));
  } else {
    int64_t least = 1;
    if (has_panels) {
      int64_t rows = kPanelRows * launch.grid.dims[descriptor.grid_rank - 1];
      int64_t whole_ns = std::max(sharing.left_ns, int64_t{1});
      int64_t short_chunks = std::min(kShortShareNs * chunked.chunks() / whole_ns, most);
      least = std::clamp((rows + chunk - 1) / chunk, short_chunks, most);
    } else {
      least = std::clamp<int64_t>((descriptor.points_at_once + chunk - 1) / chunk, 1, most);
      most = std::min(most, std::max(least, kMostAtOnce));
    }
    chunked.share_evenly(sharing.threads, least, most);
    executor.run(chunked);
  }
  note_run(descriptor, launch, chunked, sharing, sharing.threads, start);
}

/// The number of threads, up to those of `sharing`, that is fastest: logging additions or making
/// them with atomic instructions may cost more than a thread saves. The sums are the same. Notes it
/// in `sharing` where this run shows it.
int64_t threads_that_pay(const LaunchDescriptor& descriptor, const Launch& launch,
                         AccumulatingRun& chunked, Sharing& sharing) {
  constexpr int64_t kTrialChunks = 8;
  int64_t threads = sharing.threads;
  if (threads == 1 || !chunked.share(threads)) return 1;
  if (sharing.paid > 1) return sharing.paid;
  if (!chunked.has_detours(threads) || is_sharing_eager()) return threads;
  int64_t few = chunked.has_detours(chunked.sequences()) ? 1 : chunked.sequences();
  if (chunked.chunks() < kTrialChunks) return few;
  // The first chunk of a run tells what a point takes without detours.
  int64_t few_ns = timed(chunked) / few;
  AccumulatingRun::Cost shared = chunked.try_shared();
  int64_t each_ns = (shared.concurrent_ns + shared.ordered_ns) / threads;
  int64_t ordered_ns = shared.ordered_ns / chunked.sequences();
  sharing.paid = std::max(each_ns, ordered_ns) * 10 < few_ns * 9 ? threads : few;
  if (is_complete(launch)) note_paying(descriptor, launch, threads, sharing.paid);
  return sharing.paid;
}

void run_accumulating(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
                      Executor& executor) {
  AccumulatingRun chunked(descriptor, block, launch, points_with_copies(descriptor, block, launch));
  auto start = Clock::now();
  int64_t most = chunked.is_alone() ? 1 : executor.max_threads();
  Sharing sharing = choose_sharing(descriptor, launch, chunked, most, executor);
  int64_t threads = threads_that_pay(descriptor, launch, chunked, sharing);
  if (threads == 1) {
    chunked.claim_all();
  } else {
    chunked.open(threads);
    executor.run(chunked);
  }
  chunked.finish();
  note_run(descriptor, launch, chunked, sharing, threads, start);
}

}  // namespace

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
