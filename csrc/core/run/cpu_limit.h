// How many processors this process may use.
#pragma once

#include <string>

namespace kernelcore {

/// Processors that the control groups of this process grant it at a time, at least 1; 0 where they
/// set no limit. `root` is put before the paths of /proc and /sys.
int cgroup_cpus(const std::string& root);

/// Processors that affinity and control groups leave to this process.
int available_cpus();

}  // namespace kernelcore
