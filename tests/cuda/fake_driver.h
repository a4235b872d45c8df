// What the parts of the fake driver share: its state, and a record of every call.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver_table.h"
#include "kernelcore/abi.h"

namespace kernelcore::fake {

using namespace kernelcore::cuda;

inline constexpr int kDevices = 2;

/// What a graph does: a step, or other graphs as long as a condition holds.
struct Node {
  std::function<void()> step;
  ConditionHandle condition = 0;
  bool repeats = false;
  struct Graph* body = nullptr;
};
struct Graph {
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<void>> kept;  // what lives as long as the graph and its instances
  bool is_valid = true;                     // whether nothing was done that ends its capture
};
struct Memory {
  size_t bytes = 0;
  int device = 0;
  bool is_pinned = false;
};

struct State {
  std::recursive_mutex mutex;
  std::vector<std::string> log;
  std::map<std::string, std::pair<KernelFn, size_t>> kernels;  // with bytes of arguments
  std::vector<char> last_block;
  std::map<std::string, std::pair<int, int>> failures;  // calls to let pass, result
  std::map<uintptr_t, Memory> memory;
  std::map<void*, std::string> names;  // of handles, by kind and number
  std::map<std::string, int> counts;
  std::map<StreamHandle, Graph*> captures;
  std::map<EventHandle, Graph*> recorded;  // the capture that an event was recorded in
  int broken = 0;                          // what every call gives once a kernel has failed
  std::map<ConditionHandle, unsigned> conditions;
  int pools = 1;
  bool is_idle = false;  // whether launches do nothing at all
};
State& state();

std::string text(const void* handle);
template <std::integral Number>
std::string text(Number value) {
  return std::to_string(value);
}
inline std::string text(const std::string& value) {
  return value;
}

/// Records a line; the result of call `name`, which a test may have chosen.
Result record(const std::string& name, std::string line);

template <class... Args>
Result note(const char* name, const Args&... args) {
  std::string line = name;
  ((line += " " + text(args)), ...);
  return record(name, std::move(line));
}

template <class Handle>
Handle make(const std::string& kind) {
  State& s = state();
  auto* object = new std::string(kind);
  s.names[object] = kind + std::to_string(++s.counts[kind]);
  return reinterpret_cast<Handle>(object);
}

/// What a call gives that no thread may make while streams capture, unless it says otherwise: it
/// ends all captures.
Result forbid_in_captures();

/// As above, of waiting for a stream or for all of them.
Result wait_for(StreamHandle stream);
Result wait_for_all();

/// The device whose context is current, or -1.
int current_device();

/// Lets the memory of devices be touched while it lives.
class Access {
 public:
  Access();
  ~Access();
};

/// Does `step` now, or in the graph that the stream captures; it may touch memory of devices.
Result enqueue(StreamHandle stream, std::function<void()> step);

inline void* host(DevicePointer pointer) {
  return reinterpret_cast<void*>(pointer);
}

}  // namespace kernelcore::fake

#define FAKE extern "C" __attribute__((visibility("default")))
#define NOTE(...)                      \
  std::lock_guard lock(state().mutex); \
  if (Result noted = note(__VA_ARGS__); noted != 0) return noted
#define GIVE(result) \
  if (Result given = (result); given != 0) return given
