// One kernel run: the grid, its chunks, and the threads that may help.
#pragma once

#include <atomic>
#include <span>

#include "core/array_view.h"
#include "core/signature.h"
#include "kernelcore/abi.h"

namespace kernelcore {

/// Runs of at most this many grid points stay on the calling thread, as one chunk.
inline constexpr int64_t kInlinePoints = 256;

/// A run cut into chunks that threads claim until none is left.
class ChunkedRun {
 public:
  ChunkedRun(KernelFn fn, const void* block, const Grid* grid, int64_t total, int64_t chunk);

  /// Runs the next unclaimed chunk; false when there was none.
  bool claim_one();
  /// Runs chunks until none is left to claim; others may still be running theirs.
  void claim_all() {
    while (claim_one()) {
    }
  }
  /// Returns once every chunk has finished, wherever it runs.
  void wait() const;

  int64_t chunks() const { return chunks_; }

 private:
  const KernelFn fn_;
  const void* const block_;
  const Grid* const grid_;
  const int64_t total_;
  const int64_t chunk_;
  const int64_t chunks_;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int64_t> done_{0};
};

/// Where helper threads join a run while it is open.
class RunGate {
 public:
  void open(ChunkedRun& run) { current_.store(&run, std::memory_order_seq_cst); }
  /// Claims chunks of the open run, if there is one.
  void help();
  /// After this no helper touches the run.
  void close();

 private:
  std::atomic<ChunkedRun*> current_{nullptr};
  alignas(64) std::atomic<int32_t> helpers_{0};
};

/// A source of threads. `run` may lose the race for them and do all the work itself.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Work below this does not gain from a second thread.
  virtual int64_t dispatch_cost_ns() const = 0;
  /// Finishes every chunk of `run`, the caller helping.
  virtual void run(ChunkedRun& run) = 0;
};

/// The grid of a launch with its number of points.
struct Launch {
  Grid grid;
  int64_t total;
};

/// Checks `dims` against `signature`; throws an argument Error.
Launch make_launch(const Signature& signature, std::span<const int64_t> dims);

/// Runs the kernel over the whole grid. Throws an Error when the kernel reports failure.
void run(const Signature& signature, const void* block, Launch& launch, Executor& executor);

/// Throws unless every array of `views`, one per parameter, is as large as the grid makes it.
/// Entries of values are not looked at.
void check_reach(const Signature& signature, const ArrayView* views, const Launch& launch);

}  // namespace kernelcore
