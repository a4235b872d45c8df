// How many processors this process may use.
#pragma once

#include <string>

namespace kernelcore {

/// The CPU quota of this process's control groups, in processors, at least 1; 0: no limit. `root`
/// is prepended to the paths of /proc and /sys.
int cgroup_cpus(const std::string& root);

/// The most threads that a pool uses.
inline constexpr int kMaxThreads = 1024;

/// Processors that affinity and control groups allow this process.
int available_cpus();

}  // namespace kernelcore
