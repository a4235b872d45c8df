// One kernel run: the grid, its chunks, and the threads that may help.
#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "core/launch_descriptor.h"
#include "core/memory/array_view.h"
#include "core/run/interrupt.h"
#include "kernelcore/abi.h"

namespace kernelcore {

/// Runs of at most this many grid points stay on the calling thread, as one chunk.
inline constexpr int64_t kInlinePoints = 256;

// Runs that take longer can be interrupted.
inline constexpr int64_t kLongNs = 10'000'000;

class OperandWindows;

/// A run cut into chunks that threads claim until none is left.
class ChunkedRun {
 public:
  ChunkedRun(KernelFn fn, const void* block, const Grid* grid, int64_t total, int64_t chunk,
             bool flush_denormals = false, const OperandWindows* windows = nullptr);
  virtual ~ChunkedRun() = default;
  ChunkedRun(const ChunkedRun&) = delete;
  ChunkedRun& operator=(const ChunkedRun&) = delete;

  /// Runs the next unclaimed chunk on the thread that launched; false when there was none.
  bool claim_one() { return claim(0); }
  /// Runs chunks until none is left to claim; others may still be running theirs.
  void claim_all() {
    while (claim(0)) {
    }
  }
  /// Runs everything left, `at_once` chunks at a time. No other thread may take part in the run.
  void claim_rest(int64_t at_once);
  /// As `claim_all`, on another thread: helper `helper` of an executor, from 1 on.
  void help(int64_t helper);
  /// Gives each of `workers` threads a range of the chunks. It claims those first, and what others
  /// have left of theirs afterwards: in launches over the same arrays, one after the other, a
  /// processor finds its part in its own cache. At most one chunk, the first, may have been
  /// claimed. A claim takes half of what is left of a range, `least` to `most` chunks: few calls,
  /// each of which may copy panels for all its rows, and small ones at the end. It takes no more
  /// than `kLongNs`, as far as the first chunks tell; until these have run, `least`.
  void share_evenly(int64_t workers, int64_t least, int64_t most);
  /// Returns once every chunk has finished, wherever it runs.
  void wait() const;

  int64_t chunks() const { return chunks_; }
  /// What a point took of the first chunks that the launching thread ran, in picoseconds; 0 before.
  int64_t point_ps() const { return point_ps_.load(std::memory_order_relaxed); }

 protected:
  /// Adjacent chunks, from `first` to before `end`.
  struct Chunks {
    int64_t first;
    int64_t end;
  };

  /// Runs `chunks`, only one if they are not shared evenly; `worker` is 0 on the thread that
  /// launched, and a number per helper.
  virtual void run_chunks(Chunks chunks, int64_t worker);

  /// Admits helpers up to worker `count - 1` only.
  void limit_workers(int64_t count) { max_workers_ = count; }

  /// Runs the kernel over a range of points, unless the run has been interrupted.
  void run_kernel(const void* block, const Grid& grid, int64_t begin, int64_t end) const;
  const void* block() const { return block_; }
  const Grid& grid() const { return *grid_; }
  int64_t total() const { return total_; }
  int64_t chunk_points() const { return chunk_; }
  /// The first point of `chunks`, and the one past their last.
  std::pair<int64_t, int64_t> points_of(Chunks chunks) const {
    return {chunks.first * chunk_, std::min(chunks.end * chunk_, total_)};
  }
  /// The same of chunk `index`.
  std::pair<int64_t, int64_t> points_of(int64_t index) const {
    return points_of(Chunks{index, index + 1});
  }

 private:
  /// The chunks of one worker that nobody has claimed yet.
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };

  bool claim(int64_t worker);
  /// Runs `chunks` on the launching thread, and sets `point_ps_`.
  void time_chunks(Chunks chunks);
  /// Claims the next chunks, of the worker's own range first; empty once all are claimed.
  Chunks claimed_of_shares(int64_t worker);

  const KernelFn fn_;
  const void* const block_;
  const Grid* const grid_;
  const int64_t total_;
  const int64_t chunk_;
  const int64_t chunks_;
  const bool flush_denormals_;
  const OperandWindows* const windows_;
  int64_t max_workers_ = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> point_ps_{0};  // of the launching thread
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  std::unique_ptr<Share[]> shares_;
  int64_t share_count_ = 0;
  int64_t least_at_once_ = 1;
  int64_t most_at_once_ = 1;
};

/// Where helper threads join a run while it is open.
class RunGate {
 public:
  void open(ChunkedRun& run) { current_.store(&run, std::memory_order_seq_cst); }
  /// Claims chunks of the open run, if there is one, as helper `helper`.
  void help(int64_t helper);
  /// After this no helper touches the run.
  void close();

 private:
  std::atomic<ChunkedRun*> current_{nullptr};
  alignas(64) std::atomic<int32_t> helpers_{0};
};

/// The least that it takes to start a second thread.
inline constexpr int64_t kLeastDispatchNs = 5'000;

/// A source of threads. `run` may lose the race for them and do all the work itself.
class Executor {
 public:
  virtual ~Executor() = default;
  /// How many threads a run may have, the calling one included.
  virtual int64_t max_threads() const = 0;
  /// Whether a run should have more threads, which would save `saved_ns` of its time if they began
  /// at once. Asked once a run.
  virtual bool pays_to_start(int64_t saved_ns) = 0;
  /// Finishes every chunk of `run`, the caller helping.
  virtual void run(ChunkedRun& run) = 0;
};

/// Sets whether threads share every run of several chunks, however short; for tests.
void set_eager_sharing(bool is_eager);

/// The grid of a launch with its number of points.
struct Launch {
  Grid grid;
  int64_t total;
  // Operands that every call of the kernel has copies of; null: none.
  const OperandWindows* windows = nullptr;
};

/// Checks `dims` against `descriptor`; throws an argument Error.
Launch make_launch(const LaunchDescriptor& descriptor, std::span<const int64_t> dims);

/// Runs the kernel over the whole grid. Throws an Error when the kernel reports failure.
void run(const LaunchDescriptor& descriptor, const void* block, Launch& launch, Executor& executor);

/// Throws an argument Error unless `array`, that of `indexed`, is as large as the grid.
void check_extent(const LaunchDescriptor& descriptor, const GridIndexedAxis& indexed,
                  const ArrayView& array, const Launch& launch);

/// Throws an argument Error if `array`, that of `covered`, is larger than the grid.
void check_covered(const LaunchDescriptor& descriptor, const GridIndexedAxis& covered,
                   const ArrayView& array, const Launch& launch);

}  // namespace kernelcore
