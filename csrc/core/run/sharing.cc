#include "core/run/sharing.h"

#include <algorithm>
#include <atomic>

namespace kernelcore {
namespace {

// If the first chunk shows that a run takes more than this multiple of the expected time, the
// executor is asked again.
constexpr int64_t kMostOfExpected = 2;

std::atomic<bool> g_is_eager{false};

/// What a run takes on one thread, as the last one of as many points tells; 0 if that had others.
int64_t expected_ns(const LaunchDescriptor& descriptor, const Launch& launch) {
  std::atomic_ref points(descriptor.timed_points);
  if (points.load(std::memory_order_relaxed) != launch.total) return 0;
  std::atomic_ref point_ps(descriptor.point_ps);
  return point_ps.load(std::memory_order_relaxed) * launch.total / 1000;
}

}  // namespace

void set_eager_sharing(bool is_eager) {
  g_is_eager.store(is_eager, std::memory_order_relaxed);
}

bool is_sharing_eager() {
  return g_is_eager.load(std::memory_order_relaxed);
}

bool pays_to_dispatch(int64_t ns, int64_t chunks, int64_t threads, Executor& executor) {
  int64_t rounds = (chunks + threads - 1) / threads;
  return executor.pays_to_start(ns - ns / chunks * rounds) || is_sharing_eager();
}

Sharing choose_sharing(const LaunchDescriptor& descriptor, const Launch& launch, ChunkedRun& run,
                       int64_t most, Executor& executor) {
  auto shared = [&](int64_t ns, int64_t chunks) {
    int64_t threads = std::min(most, chunks);
    return threads > 1 && pays_to_dispatch(ns, chunks, threads, executor) ? threads : 1;
  };
  int64_t whole_ns = most > 1 ? expected_ns(descriptor, launch) : 0;
  int64_t threads = whole_ns > 0 ? shared(whole_ns, run.chunks()) : 1;
  if (threads > 1) {
    // It may take much longer than the last one.
    expect_interrupts();
    return {threads, whole_ns};
  }
  run.claim_one();
  int64_t others = run.chunks() - 1;
  int64_t left_ns = run.point_ps() * launch.total / 1000 / run.chunks() * others;
  if (left_ns > kLongNs) expect_interrupts();
  bool is_as_expected = whole_ns > 0 && left_ns <= kMostOfExpected * whole_ns;
  return {is_as_expected ? 1 : shared(left_ns, others), left_ns};
}

void note_time(const LaunchDescriptor& descriptor, const Launch& launch, const ChunkedRun& run) {
  std::atomic_ref(descriptor.point_ps).store(run.point_ps(), std::memory_order_relaxed);
  std::atomic_ref(descriptor.timed_points).store(launch.total, std::memory_order_relaxed);
}

}  // namespace kernelcore
