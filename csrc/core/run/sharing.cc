#include "core/run/sharing.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace kernelcore {
namespace {

// If the first chunk shows that a run takes more than this multiple of the expected time, the
// executor is asked again.
constexpr int64_t kMostOfExpected = 2;

// A trial holds for the fewest runs, and for twice as many each time that the next one finds the
// same: it costs up to a run on one thread, but another program may spoil it (docs/decisions/311).
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

/// How many of `threads` threads paid in the last trial of as many points; 0 where that is unknown,
/// or is to be measured again.
int64_t threads_that_paid(const LaunchDescriptor& descriptor, const Launch& launch,
                          int64_t threads) {
  if (is_sharing_eager() || !was_tried(descriptor, launch, threads)) return 0;
  std::atomic_ref runs(descriptor.trial_runs);
  if (runs.fetch_sub(1, std::memory_order_relaxed) <= 0) return 0;
  int64_t found = std::atomic_ref(descriptor.trial_found).load(std::memory_order_relaxed);
  // A launch on another thread may have noted one of more threads meanwhile.
  return std::min(found, threads);
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

void forget_trial(const LaunchDescriptor& descriptor) {
  std::atomic_ref(descriptor.trial_points).store(0, std::memory_order_relaxed);
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
  int64_t paid = threads > 1 ? threads_that_paid(descriptor, launch, threads) : 1;
  if (paid != 1) {
    // It may take much longer than the last one.
    expect_interrupts();
    return {threads, whole_ns, threads, paid};
  }
  run.claim_one();
  int64_t others = run.chunks() - 1;
  int64_t found_ns = run.point_ps() * launch.total / 1000;
  int64_t left_ns = found_ns / run.chunks() * others;
  if (left_ns > kLongNs) expect_interrupts();
  bool is_as_expected = whole_ns > 0 && found_ns <= kMostOfExpected * whole_ns;
  if (is_as_expected) return {1, left_ns, threads > 1 ? threads : 0, paid};
  if (threads > 1) forget_trial(descriptor);
  return {shared(left_ns, others), left_ns, 0, 0};
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
                     const Sharing& sharing, int64_t used, int64_t ns, int64_t alone_ns) {
  int64_t threads = sharing.possible;
  if (threads == 0) return;
  if (used == 1) {
    std::atomic_ref last(descriptor.trial_shared_ns);
    int64_t shared_ns = last.exchange(0, std::memory_order_relaxed);
    if (shared_ns > 0) {
      note_paying(descriptor, launch, threads, shared_ns * 10 < ns * 9 ? threads : 1);
    }
    return;
  }
  bool gains = ns > kShortRunNs && ns * 10 < alone_ns * 9;
  if (sharing.paid > 0 || gains || is_sharing_eager()) return;
  if (!was_tried(descriptor, launch, threads)) {
    // A program may have few launches of the same points after each other.
    return keep_trial(descriptor, launch, {threads, used, kFewestRunsPerTrial, 0});
  }
  // The first run that is told nothing may have woken the others.
  std::atomic_ref runs(descriptor.trial_runs);
  if (runs.load(std::memory_order_relaxed) == -1) return;
  keep_trial(descriptor, launch, {threads, 1, 1, ns});
}

void note_time(const LaunchDescriptor& descriptor, const Launch& launch, const ChunkedRun& run) {
  std::atomic_ref(descriptor.point_ps).store(run.point_ps(), std::memory_order_relaxed);
  std::atomic_ref(descriptor.timed_points).store(launch.total, std::memory_order_relaxed);
}

}  // namespace kernelcore
