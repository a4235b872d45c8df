#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>

#include "core/run/pool.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace kernelcore {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The contents of a file, empty if it cannot be read. Not by C++ streams, which crash where
/// another copy of libstdc++ is loaded.
std::string contents(const std::string& path) {
  std::string text;
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return text;
  char part[4096];
  while (size_t size = std::fread(part, 1, sizeof part, file)) text.append(part, size);
  std::fclose(file);
  return text;
}

/// The limit of "150000 100000", time per period; none of "max 100000" and of what is incomplete.
double limit_of(const std::string& text) {
  long long quota = 0;
  long long period = 0;
  std::sscanf(text.c_str(), "%lld %lld", &quota, &period);
  bool is_limit = quota > 0 && period > 0;
  return is_limit ? static_cast<double>(quota) / static_cast<double>(period) : kNoLimit;
}

double read_v2(const std::string& folder) {
  return limit_of(contents(folder + "/cpu.max"));
}

double read_v1(const std::string& folder) {
  std::string quota = contents(folder + "/cpu.cfs_quota_us");
  return limit_of(quota + " " + contents(folder + "/cpu.cfs_period_us"));
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
  std::string groups = contents(root + "/proc/self/cgroup");
  double least = kNoLimit;
  for (size_t start = 0, end = 0; start < groups.size(); start = end + 1) {
    end = std::min(groups.find('\n', start), groups.size());
    std::string line = groups.substr(start, end - start);
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
