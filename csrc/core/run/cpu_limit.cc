#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "core/run/pool.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace kernelcore {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// "max 100000" or "150000 100000", as version 2 writes it.
double read_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return kNoLimit;
  double time = 0;
  return std::istringstream(quota) >> time ? time / period : kNoLimit;
}

double read_v1(const std::string& folder) {
  double quota = -1;
  double period = 0;
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  if (!(quota_file >> quota) || !(period_file >> period)) return kNoLimit;
  return quota > 0 && period > 0 ? quota / period : kNoLimit;
}

/// The least limit of group `path` and the groups around it; in a container `path` may be unknown.
template <class Read>
double least_limit(const std::string& mount, std::string path, Read read) {
  double least = kNoLimit;
  while (true) {
    least = std::min(least, read(mount + path));
    if (path.empty()) return least;
    size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

int cgroup_cpus(const std::string& root) {
  std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  double least = kNoLimit;
  for (std::string line; std::getline(groups, line);) {
    // number:controllers:path, without controllers in version 2
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      least = std::min(least, least_limit(mount, path, read_v2));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      for (const std::string& name : {controllers, std::string("cpu")}) {
        least = std::min(least, least_limit(mount + "/" + name, path, read_v1));
      }
    }
  }
  if (least == kNoLimit) return 0;
  return static_cast<int>(std::clamp(std::ceil(least), 1.0, 1e6));
}

int available_cpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) cpus = CPU_COUNT(&allowed);
#endif
  int granted = cgroup_cpus("");
  return std::max(granted > 0 ? std::min(cpus, granted) : cpus, 1);
}

}  // namespace kernelcore
