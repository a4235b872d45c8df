#include "torch/threads.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <type_traits>

#include "core/run/pool.h"

namespace kernelcore::torch {
namespace {

/// The functions of the OpenMP library that torch has loaded; null where there is none.
struct OpenMp {
  void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
  int (*max_threads)() = nullptr;
  int (*in_parallel)() = nullptr;
  int (*thread_number)() = nullptr;

  bool is_found() const {
    return parallel != nullptr && max_threads != nullptr && in_parallel != nullptr &&
           thread_number != nullptr;
  }
};

int find_openmp_library(dl_phdr_info* info, size_t, void* found) {
  std::string_view path = info->dlpi_name;
  std::string_view name = path.substr(path.find_last_of('/') + 1);
  if (!name.starts_with("libgomp") && !name.starts_with("libiomp5")) return 0;
  *static_cast<void**>(found) = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  return 1;
}

OpenMp find_openmp() {
  void* library = nullptr;
  dl_iterate_phdr(find_openmp_library, &library);
  OpenMp found;
  if (library == nullptr) return found;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  find(found.parallel, "GOMP_parallel");
  find(found.max_threads, "omp_get_max_threads");
  find(found.in_parallel, "omp_in_parallel");
  find(found.thread_number, "omp_get_thread_num");
  return found;
}

class OpenMpThreads final : public Executor {
 public:
  explicit OpenMpThreads(const OpenMp& openmp) : openmp_(openmp) {}

  int64_t max_threads() const override {
    if (openmp_.in_parallel() != 0) return 1;
    return std::min(openmp_.max_threads(), Pool::instance().num_threads());
  }
  bool pays_to_start(int64_t saved_ns) override { return saved_ns >= 10'000; }

  void run(ChunkedRun& run) override {
    struct Team {
      const OpenMp& openmp;
      ChunkedRun& run;
    } team{openmp_, run};
    auto body = [](void* data) {
      auto& [openmp, shared] = *static_cast<Team*>(data);
      if (openmp.thread_number() == 0) {
        shared.claim_all();
      } else {
        shared.help(openmp.thread_number());
      }
    };
    // It returns when all threads have left the run.
    openmp_.parallel(body, &team, static_cast<unsigned>(max_threads()), 0);
  }

 private:
  const OpenMp openmp_;
};

// OpenMP's threads do not exist in a forked child, and GNU's library waits for them for ever.
std::atomic<bool> g_is_forked{false};

}  // namespace

void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { g_is_forked.store(true, std::memory_order_relaxed); });
}

Executor& operator_threads() {
  static OpenMpThreads* const threads = [] {
    OpenMp openmp = find_openmp();
    return openmp.is_found() ? new OpenMpThreads(openmp) : nullptr;
  }();
  if (threads == nullptr || g_is_forked.load(std::memory_order_relaxed)) return Pool::instance();
  return *threads;
}

}  // namespace kernelcore::torch
