#include "core/launch.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/array_view.h"
#include "core/error.h"
#include "core/pause.h"

namespace kernelcore {
namespace {

constexpr int64_t kMaxChunkPoints = 16384;
constexpr int64_t kTargetChunks = 64;

// Depends on nothing but the total: results must not change with the number of threads.
int64_t chunk_points(int64_t total) {
  if (total <= kInlinePoints) return total;
  int64_t even = (total + kTargetChunks - 1) / kTargetChunks;
  int64_t aligned = (even + 63) / 64 * 64;
  return std::clamp(aligned, kInlinePoints, kMaxChunkPoints);
}

void run_chunked(const Signature& signature, const void* block, const Launch& launch,
                 Executor& executor) {
  using Clock = std::chrono::steady_clock;
  ChunkedRun chunked(signature.fn, block, &launch.grid, launch.total, chunk_points(launch.total));
  auto start = Clock::now();
  chunked.claim_one();
  auto first = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  if (first * (chunked.chunks() - 1) < executor.dispatch_cost_ns()) {
    chunked.claim_all();
  } else {
    executor.run(chunked);
  }
}

/// Spins until `done()`, giving the processor away when that takes long.
template <class Predicate>
void spin_until(Predicate done) {
  constexpr int kSpins = 2000;
  for (int spins = 0; !done(); ++spins) {
    if (spins < kSpins) {
      cpu_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

ChunkedRun::ChunkedRun(KernelFn fn, const void* block, const Grid* grid, int64_t total,
                       int64_t chunk)
    : fn_(fn),
      block_(block),
      grid_(grid),
      total_(total),
      chunk_(chunk),
      chunks_((total + chunk - 1) / chunk) {}

bool ChunkedRun::claim_one() {
  int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
  if (index >= chunks_) return false;
  int64_t begin = index * chunk_;
  fn_(block_, grid_, begin, std::min(begin + chunk_, total_));
  done_.fetch_add(1, std::memory_order_release);
  return true;
}

void ChunkedRun::wait() const {
  spin_until([this] { return done_.load(std::memory_order_acquire) == chunks_; });
}

void RunGate::help() {
  // Raised before current_ is read, so that close() cannot miss a helper that has seen the run.
  helpers_.fetch_add(1, std::memory_order_seq_cst);
  if (ChunkedRun* run = current_.load(std::memory_order_seq_cst)) run->claim_all();
  helpers_.fetch_sub(1, std::memory_order_seq_cst);
}

void RunGate::close() {
  current_.store(nullptr, std::memory_order_seq_cst);
  spin_until([this] { return helpers_.load(std::memory_order_seq_cst) == 0; });
}

Launch make_launch(const Signature& signature, std::span<const int64_t> dims) {
  auto fail = [&](const std::string& expected, const std::string& found) {
    throw signature.launch_error("grid: expected " + expected + ", found " + found,
                                 "launch over as many dimensions as the kernel asks tid() for");
  };
  auto rank = static_cast<int>(dims.size());
  if (rank > kMaxGridDims || (signature.grid_rank != 0 && rank != signature.grid_rank)) {
    int expected = signature.grid_rank == 0 ? kMaxGridDims : signature.grid_rank;
    std::string at_most = signature.grid_rank == 0 ? "at most " : "";
    fail(at_most + std::to_string(expected) + (expected == 1 ? " dimension" : " dimensions"),
         std::to_string(rank));
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
  if (signature.grid_rank == 0) {
    // Such a kernel is compiled for one axis and runs once per point of any grid.
    std::fill_n(launch.grid.dims, kMaxGridDims, int64_t{1});
    launch.grid.dims[0] = launch.total;
  }
  return launch;
}

void check_reach(const Signature& signature, const ArrayView* views, const Launch& launch) {
  if (launch.total == 0) return;
  for (const Reach& reach : signature.reaches) {
    int64_t needed = launch.grid.dims[reach.grid_axis];
    int64_t found = views[reach.parameter].shape[reach.axis];
    if (found >= needed) continue;
    throw signature.argument_error(reach.parameter,
                                   "expected at least " + std::to_string(needed) +
                                       " elements on axis " + std::to_string(reach.axis) +
                                       ", which the launch indexes, found " + std::to_string(found),
                                   "launch over fewer points, or give a larger array");
  }
}

void run(const Signature& signature, const void* block, Launch& launch, Executor& executor) {
  if (launch.total == 0) return;
  int64_t status[kStatusWords] = {};
  launch.grid.status = status;
  if (launch.total <= kInlinePoints) {
    signature.fn(block, &launch.grid, 0, launch.total);
  } else {
    run_chunked(signature, block, launch, executor);
  }
  if (status[0] != 0) throw signature.run_error(status);
}

}  // namespace kernelcore
