#include "core/run/sharing.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace kernelcore {
namespace {

// If the first chunk shows that a run takes more than this multiple of the expected time, the
// executor is asked again.
constexpr int64_t kMostOfExpected = 2;

// A trial takes as long as the rest of a short run, but another program may have spoilt it: it is
// repeated after so many runs, after twice as many if it finds the same (docs/decisions/311).
constexpr int64_t kFewestRunsPerTrial = 8;
constexpr int64_t kMostRunsPerTrial = 128;
// Runs up to this long are tried on one thread, too.
constexpr int64_t kShortRunNs = 5'000'000;

std::atomic<bool> g_is_eager{false};

/// What a run takes on one thread, as the last one of as many points tells; 0 if that had others.
int64_t expected_ns(const LaunchDescriptor& descriptor, const Launch& launch) {
  std::atomic_ref points(descriptor.timed_points);
  if (points.load(std::memory_order_relaxed) != launch.total) return 0;
  std::atomic_ref point_ps(descriptor.point_ps);
  return point_ps.load(std::memory_order_relaxed) * launch.total / 1000;
}

/// Whether the last trial was of as many points and threads.
bool was_tried(const LaunchDescriptor& descriptor, const Launch& launch, int64_t threads) {
  std::atomic_ref points(descriptor.trial_points);
  std::atomic_ref shared(descriptor.trial_threads);
  return points.load(std::memory_order_relaxed) == launch.total &&
         shared.load(std::memory_order_relaxed) == threads;
}

struct Trial {
  int64_t threads;
  int64_t found;
  int64_t runs;
  int64_t shared_ns;
};

void keep_trial(const LaunchDescriptor& descriptor, const Launch& launch, const Trial& trial) {
  auto keep = [](int64_t& field, int64_t value) {
    std::atomic_ref(field).store(value, std::memory_order_relaxed);
  };
  if (!was_tried(descriptor, launch, trial.threads)) keep(descriptor.trial_span, 0);
  keep(descriptor.trial_points, launch.total);
  keep(descriptor.trial_threads, trial.threads);
  keep(descriptor.trial_found, trial.found);
  keep(descriptor.trial_runs, trial.runs);
  keep(descriptor.trial_shared_ns, trial.shared_ns);
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

int64_t threads_that_paid(const LaunchDescriptor& descriptor, const Launch& launch,
                          int64_t threads) {
  if (is_sharing_eager() || !was_tried(descriptor, launch, threads)) return 0;
  std::atomic_ref runs(descriptor.trial_runs);
  if (runs.fetch_sub(1, std::memory_order_relaxed) <= 0) return 0;
  return std::atomic_ref(descriptor.trial_found).load(std::memory_order_relaxed);
}

void note_paying(const LaunchDescriptor& descriptor, const Launch& launch, int64_t threads,
                 int64_t found) {
  std::atomic_ref last(descriptor.trial_span);
  int64_t span = was_tried(descriptor, launch, threads) ? last.load(std::memory_order_relaxed) : 0;
  bool is_same = found > 1 ? span > 0 : span < 0;
  int64_t runs = is_same ? std::min(2 * std::abs(span), kMostRunsPerTrial) : kFewestRunsPerTrial;
  // A run on one thread takes up to as many times as long as there are threads.
  keep_trial(descriptor, launch, {threads, found, runs * found, 0});
  last.store(found > 1 ? runs : -runs, std::memory_order_relaxed);
}

void compare_threads(const LaunchDescriptor& descriptor, const Launch& launch,
                     const SharedRun& run) {
  if (run.used == 1) {
    std::atomic_ref last(descriptor.trial_shared_ns);
    int64_t shared_ns = last.exchange(0, std::memory_order_relaxed);
    if (shared_ns == 0) return;
    bool gains = shared_ns * 10 < run.ns * 9;
    return note_paying(descriptor, launch, run.threads, gains ? run.threads : 1);
  }
  bool gains = run.ns > kShortRunNs && run.ns * 10 < run.alone_ns * 9;
  if (run.is_told || gains || is_sharing_eager()) return;
  // Where one thread has done the last runs, this one woke the others.
  std::atomic_ref runs(descriptor.trial_runs);
  bool was_alone = runs.load(std::memory_order_relaxed) == -1;
  if (was_alone && was_tried(descriptor, launch, run.threads)) return;
  keep_trial(descriptor, launch, {run.threads, 1, 1, run.ns});
}

void note_time(const LaunchDescriptor& descriptor, const Launch& launch, const ChunkedRun& run) {
  std::atomic_ref(descriptor.point_ps).store(run.point_ps(), std::memory_order_relaxed);
  std::atomic_ref(descriptor.timed_points).store(launch.total, std::memory_order_relaxed);
}

}  // namespace kernelcore
