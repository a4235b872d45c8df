#include <algorithm>

#include "core/run/float_mode.h"
#include "core/run/launch.h"
#include "core/run/operand_windows.h"
#include "core/run/spin_wait.h"
#include "core/run/stopwatch.h"

namespace kernelcore {

ChunkedRun::ChunkedRun(KernelFn fn, const void* block, const Grid* grid, int64_t total,
                       int64_t chunk, bool flush_denormals, const OperandWindows* windows)
    : fn_(fn),
      block_(block),
      grid_(grid),
      total_(total),
      chunk_(chunk),
      chunks_((total + chunk - 1) / chunk),
      flush_denormals_(flush_denormals),
      windows_(windows) {}

void ChunkedRun::run_kernel(const void* block, const Grid& grid, int64_t begin, int64_t end) const {
  if (is_interrupted(grid.status)) return;
  if (windows_ == nullptr) {
    fn_(block, &grid, begin, end);
  } else {
    windows_->run(fn_, block, grid, begin, end);
  }
}

void ChunkedRun::claim_rest(int64_t at_once) {
  for (int64_t index = next_.load(std::memory_order_relaxed); index < chunks_; index += at_once) {
    run_kernel(block_, *grid_, index * chunk_, std::min((index + at_once) * chunk_, total_));
  }
  next_.store(chunks_, std::memory_order_relaxed);
}

void ChunkedRun::share_evenly(int64_t workers, int64_t least, int64_t most) {
  int64_t first = next_.load(std::memory_order_relaxed);
  shares_.reset(new (std::nothrow) Share[workers]);
  if (shares_ == nullptr) return;
  share_count_ = workers;
  least_at_once_ = least;
  most_at_once_ = most;
  for (int64_t k = 0; k < workers; ++k) {
    shares_[k].next.store(std::max(k * chunks_ / workers, first), std::memory_order_relaxed);
    shares_[k].end = (k + 1) * chunks_ / workers;
  }
}

ChunkedRun::Chunks ChunkedRun::claimed_of_shares(int64_t worker) {
  int64_t chunk_ps = point_ps() * chunk_;
  int64_t most = least_at_once_;
  if (chunk_ps > 0) most = std::clamp<int64_t>(kLongNs * 1000 / chunk_ps, 1, most_at_once_);
  for (int64_t k = 0; k < share_count_; ++k) {
    Share& share = shares_[(worker + k) % share_count_];
    int64_t left = share.end - share.next.load(std::memory_order_relaxed);
    int64_t count = std::clamp((left + 1) / 2, std::min(least_at_once_, most), most);
    int64_t first = share.next.fetch_add(count, std::memory_order_relaxed);
    if (first < share.end) return {first, std::min(first + count, share.end)};
  }
  return {chunks_, chunks_};
}

bool ChunkedRun::claim(int64_t worker) {
  Chunks chunks{};
  if (shares_ != nullptr) {
    chunks = claimed_of_shares(worker);
  } else {
    chunks.first = next_.fetch_add(1, std::memory_order_relaxed);
    chunks.end = chunks.first + 1;
  }
  if (chunks.first >= chunks_) return false;
  if (worker == 0 && point_ps() == 0) {
    time_chunks(chunks);
  } else {
    run_chunks(chunks, worker);
  }
  done_.fetch_add(chunks.end - chunks.first, std::memory_order_release);
  return true;
}

void ChunkedRun::time_chunks(Chunks chunks) {
  int64_t nanoseconds = nanoseconds_of([&] { run_chunks(chunks, 0); });
  auto [begin, end] = points_of(chunks);
  int64_t point_ps = nanoseconds * 1000 / (end - begin);
  point_ps_.store(std::max<int64_t>(point_ps, 1), std::memory_order_relaxed);
}

void ChunkedRun::run_chunks(Chunks chunks, int64_t) {
  auto [begin, end] = points_of(chunks);
  run_kernel(block_, *grid_, begin, end);
}

void ChunkedRun::help(int64_t helper) {
  if (helper >= max_workers_) return;
  FloatMode mode(flush_denormals_);
  while (claim(helper)) {
  }
}

void ChunkedRun::wait() const {
  spin_until([this] { return done_.load(std::memory_order_acquire) == chunks_; });
}

void RunGate::help(int64_t helper) {
  // Raised before current_ is read, so that close() cannot miss a helper that has seen the run.
  helpers_.fetch_add(1, std::memory_order_seq_cst);
  if (ChunkedRun* run = current_.load(std::memory_order_seq_cst)) run->help(helper);
  helpers_.fetch_sub(1, std::memory_order_seq_cst);
}

void RunGate::close() {
  current_.store(nullptr, std::memory_order_seq_cst);
  spin_until([this] { return helpers_.load(std::memory_order_seq_cst) == 0; });
}

}  // namespace kernelcore
