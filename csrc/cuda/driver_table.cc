#include "cuda/driver_table.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>

#include "core/error.h"

namespace kernelcore::cuda {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";
constexpr Result kFirstOfCaptures = 900;
constexpr Result kLastOfCaptures = 908;
// What a kernel did, reported by whatever is called next; the context is lost.
constexpr Result kLost[] = {700, 702, 709, 710, 714, 715, 716, 717, 718, 719};

constexpr const char* kSpawn =
    "start it with multiprocessing's 'spawn', or use CUDA in the child only";

struct OpenDriver {
  std::mutex mutex;
  std::string path = kDriverLibrary;
  std::atomic<const DriverTable*> table{nullptr};
};

// Whether this process was forked when the driver was open.
std::atomic<bool> g_is_forked{false};

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      if (is_driver_open()) g_is_forked.store(true, std::memory_order_relaxed);
    });
  });
}

OpenDriver& open_driver() {
  static auto* instance = new OpenDriver();
  return *instance;
}

[[noreturn]] void fail(const std::string& problem, const std::string& help) {
  throw Error(ErrorKind::kDevice, problem + "\n  help: " + help);
}

void* open_library(const std::string& path) {
  // Never closed: the driver has threads of its own.
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  fail("expected NVIDIA's driver, found none (" + std::string(dlerror()) + ")",
       "install the driver of the GPU, or use device='cpu'");
}

template <class Function>
void find(void* library, const char* symbol, bool is_required, Function& entry) {
  entry = reinterpret_cast<Function>(dlsym(library, symbol));
  if (entry != nullptr || !is_required) return;
  fail("expected a driver of CUDA 11.4 or later, found one without " + std::string(symbol),
       "install a newer driver, or use device='cpu'");
}

/// Initializes; the table is complete, but not yet the one that `driver` returns.
void initialize(const DriverTable& table) {
  Result result = table.init(0);
  if (result == kSuccess) return;
  const char* text = nullptr;
  static_cast<void>(table.error_string(result, &text));
  std::string found = text == nullptr ? "error " + std::to_string(result) : text;
  if (result == kNoDevice) {
    fail("expected a CUDA device, found none (" + found + ")",
         "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use device='cpu'");
  }
  if (result == kNotInitialized) {
    // What cuInit gives in a child of a process that called it.
    fail("a process that was forked after CUDA was used has no CUDA device (" + found + ")",
         kSpawn);
  }
  fail("NVIDIA's driver does not start: " + found,
       "check nvidia-smi: driver and kernel module have to be of one version");
}

const DriverTable* load(const std::string& path) {
  void* library = open_library(path);
  auto* table = new DriverTable();
#define KC_FIND(name, symbol, parameters) find(library, #symbol, true, table->name);
  KC_DRIVER_FUNCTIONS(KC_FIND)
#undef KC_FIND
#define KC_FIND(name, symbol, parameters) find(library, #symbol, false, table->name);
  KC_NEWER_DRIVER_FUNCTIONS(KC_FIND)
#undef KC_FIND
  initialize(*table);
  return table;
}

}  // namespace

const DriverTable& driver() {
  OpenDriver& d = open_driver();
  const DriverTable* table = d.table.load(std::memory_order_acquire);
  if (table == nullptr) {
    std::lock_guard lock(d.mutex);
    table = d.table.load(std::memory_order_relaxed);
    if (table == nullptr) {
      table = load(d.path);
      watch_forks();
      d.table.store(table, std::memory_order_release);
    }
  }
  return *table;
}

bool is_driver_open() {
  return open_driver().table.load(std::memory_order_acquire) != nullptr;
}

bool is_forked() {
  return g_is_forked.load(std::memory_order_relaxed);
}

void require_same_process() {
  if (!is_forked()) [[likely]]
    return;
  fail("a process that was forked after CUDA was used has no CUDA device", kSpawn);
}

void set_driver_library(const std::string& path) {
  OpenDriver& d = open_driver();
  std::lock_guard lock(d.mutex);
  d.path = path.empty() ? kDriverLibrary : path;
  d.table.store(nullptr, std::memory_order_release);
}

std::string describe(Result result, const char* what) {
  const DriverTable* table = open_driver().table.load(std::memory_order_acquire);
  const char* name = nullptr;
  const char* text = nullptr;
  if (table != nullptr) {
    static_cast<void>(table->error_name(result, &name));
    static_cast<void>(table->error_string(result, &text));
  }
  return std::string(what) + ": " + (text == nullptr ? "unknown error" : text) + " (" +
         (name == nullptr ? std::to_string(result) : name) + ")";
}

void check(Result result, const char* what) {
  if (result == kSuccess) [[likely]]
    return;
  std::string message = describe(result, what);
  if (result == kOutOfMemory) {
    throw Error(ErrorKind::kMemory, message + "\n  help: free arrays, or use smaller ones");
  }
  if (std::ranges::find(kLost, result) != std::end(kLost)) {
    message +=
        "\n  help: an earlier kernel failed, and the process has to start again; "
        "kc.config.mode = 'debug' checks indices, kc.config.verify_cuda = True tells which "
        "launch it was";
  } else if (result >= kFirstOfCaptures && result <= kLastOfCaptures) {
    message +=
        "\n  help: a graph is being captured; synchronize, copy from and to the host and make "
        "arrays before or after that";
  }
  throw Error(ErrorKind::kDevice, message);
}

}  // namespace kernelcore::cuda
