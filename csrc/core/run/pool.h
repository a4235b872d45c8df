// The process-wide thread pool of launches that bring no threads of their own, and its limits.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/run/launch.h"

namespace kernelcore {

/// Worker threads that start at the first large run and sleep between runs.
///
/// One run at a time has the workers; a run that finds them busy stays on its own thread.
class Pool final : public Executor {
 public:
  /// The pool of this process; a forked child gets a fresh one.
  static Pool& instance();

  /// Threads that a run uses, the calling one included.
  int num_threads() const { return num_threads_.load(std::memory_order_relaxed); }
  /// Waits for the current run, then resizes; `count` is at least 1.
  void set_num_threads(int count);

  int64_t max_threads() const override { return num_threads(); }
  bool pays_to_start(int64_t saved_ns) override;
  void run(ChunkedRun& run) override;

 private:
  Pool();
  bool pays_to_wake(int64_t saved_ns);
  void start();
  void stop();
  void work(int64_t helper, int32_t seen);
  void wait_for_change(int32_t seen);

  std::atomic<int> num_threads_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;  // guarded by busy_
  alignas(64) std::atomic<int32_t> generation_{0};
  alignas(64) std::atomic<int32_t> awake_{0};
  // What runs of the present chain would have saved if the workers had been awake; the time of the
  // last of these runs.
  std::atomic<int64_t> forgone_ns_{0};
  std::atomic<int64_t> last_forgone_at_{0};
  RunGate gate_;
};

/// The CPU quota of this process's control groups, in processors, at least 1; 0: no limit. `root`
/// is prepended to the paths of /proc and /sys.
int cgroup_cpus(const std::string& root);

/// The most threads that a pool uses.
inline constexpr int kMaxThreads = 1024;

/// Processors that affinity and control groups allow this process.
int available_cpus();

}  // namespace kernelcore
