// A driver without a device: it records calls, and runs kernels that tests name on the CPU.
//
// Memory of its devices cannot be touched but by its own functions, as that of a real device.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/driver_table.h"
#include "kernelcore/abi.h"

using namespace kernelcore;
using namespace kernelcore::cuda;

namespace {

constexpr int kDevices = 2;
constexpr size_t kPage = 4096;

struct Function {
  std::string name;
  int max_threads = 1024;
};
/// What a graph does: a step, or other graphs as long as a condition holds.
struct Node {
  std::function<void()> step;
  ConditionHandle condition = 0;
  bool repeats = false;
  struct Graph* body = nullptr;
};
struct Graph {
  std::vector<Node> nodes;
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
  std::map<ConditionHandle, unsigned> conditions;
  std::vector<ContextOpaque*> contexts;  // of this thread: tests use one
  int pools = 1;
};
State& state() {
  static auto* instance = new State();
  return *instance;
}

std::string text(const void* handle) {
  if (handle == nullptr) return "null";
  if (reinterpret_cast<uintptr_t>(handle) < 16) {
    return "stream" + std::to_string(reinterpret_cast<uintptr_t>(handle));
  }
  auto it = state().names.find(const_cast<void*>(handle));
  return it == state().names.end() ? "?" : it->second;
}
std::string text(unsigned long long value) { return std::to_string(value); }
std::string text(long long value) { return std::to_string(value); }
std::string text(size_t value) { return std::to_string(value); }
std::string text(unsigned value) { return std::to_string(value); }
std::string text(int value) { return std::to_string(value); }
std::string text(const std::string& value) { return value; }

/// Records a call; its result, which a test may have chosen.
template <class... Args>
Result note(const char* name, const Args&... args) {
  State& s = state();
  std::string line = name;
  ((line += " " + text(args)), ...);
  s.log.push_back(line);
  auto it = s.failures.find(name);
  if (it == s.failures.end()) return kSuccess;
  if (it->second.first-- > 0) return kSuccess;
  Result result = it->second.second;
  s.failures.erase(it);
  return result;
}

template <class Handle>
Handle make(const std::string& kind) {
  State& s = state();
  auto* object = new std::string(kind);
  s.names[object] = kind + std::to_string(++s.counts[kind]);
  return reinterpret_cast<Handle>(object);
}

/// Lets the memory of devices be touched while it lives.
class Access {
 public:
  Access() { protect(PROT_READ | PROT_WRITE); }
  ~Access() { protect(PROT_NONE); }

 private:
  static void protect(int how) {
    for (const auto& [begin, memory] : state().memory) {
      if (!memory.is_pinned) mprotect(reinterpret_cast<void*>(begin), memory.bytes, how);
    }
  }
};

uintptr_t allocate(size_t bytes, int device, bool is_pinned) {
  size_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* found = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // Whoever reads what was never written shall see it.
  std::memset(found, is_pinned ? 0 : 0xA5, whole);
  if (!is_pinned) mprotect(found, whole, PROT_NONE);
  auto address = reinterpret_cast<uintptr_t>(found);
  state().memory[address] = {whole, device, is_pinned};
  return address;
}

bool release(uintptr_t address) {
  State& s = state();
  auto it = s.memory.find(address);
  if (it == s.memory.end()) return false;
  munmap(reinterpret_cast<void*>(address), it->second.bytes);
  s.memory.erase(it);
  return true;
}

std::vector<ContextOpaque*>& primary() {
  static auto* contexts = new std::vector<ContextOpaque*>(kDevices, nullptr);
  return *contexts;
}
thread_local std::vector<ContextHandle> t_contexts;

int current_device() {
  for (int k = 0; k < kDevices; ++k) {
    if (!t_contexts.empty() && t_contexts.back() == primary()[static_cast<size_t>(k)]) return k;
  }
  return -1;
}

/// Does `step` now, or in the graph that the stream captures.
Result enqueue(StreamHandle stream, std::function<void()> step) {
  auto it = state().captures.find(stream);
  auto guarded = [step = std::move(step)] {
    Access access;
    step();
  };
  if (it == state().captures.end()) {
    guarded();
  } else {
    it->second->nodes.push_back({guarded});
  }
  return kSuccess;
}

void run(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.body == nullptr) {
      node.step();
      continue;
    }
    while (state().conditions[node.condition] != 0) {
      run(*node.body);
      if (!node.repeats) break;
    }
  }
}

void* host(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

/// What the kernel of that name does.
Result set_condition(StreamHandle stream, void** parameters) {
  auto condition = *static_cast<ConditionHandle*>(parameters[0]);
  auto address = *static_cast<DevicePointer*>(parameters[1]);
  auto bytes = *static_cast<unsigned*>(parameters[2]);
  auto is_negated = *static_cast<unsigned*>(parameters[3]);
  state().log.push_back("kc_set_condition " + text(bytes) + " " + text(is_negated));
  return enqueue(stream, [=] {
    unsigned long long value = 0;
    std::memcpy(&value, host(address), bytes);
    state().conditions[condition] = static_cast<unsigned>(value != 0) ^ is_negated;
  });
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))
#define NOTE(...)                                     \
  std::lock_guard lock(state().mutex);                \
  if (Result noted = note(__VA_ARGS__); noted != 0) return noted

// What tests ask of it.
FAKE const char* fake_log() {
  static std::string joined;
  joined.clear();
  for (const auto& line : state().log) joined += line + "\n";
  return joined.c_str();
}
FAKE void fake_clear() { state().log.clear(); }
FAKE void fake_fail(const char* name, int after, int result) {
  state().failures[name] = {after, result};
}
FAKE void fake_register(const char* symbol, void* function, size_t block_bytes) {
  state().kernels[symbol] = {reinterpret_cast<KernelFn>(function), block_bytes};
}
FAKE size_t fake_last_block(void* target) {
  std::memcpy(target, state().last_block.data(), state().last_block.size());
  return state().last_block.size();
}
FAKE long fake_live_bytes() {
  long total = 0;
  for (const auto& [begin, memory] : state().memory) {
    if (!memory.is_pinned) total += static_cast<long>(memory.bytes);
  }
  return total;
}
FAKE void fake_pools(int has_pools) { state().pools = has_pools; }

FAKE Result cuInit(unsigned flags) {
  NOTE("cuInit", flags);
  return kSuccess;
}
FAKE Result cuDriverGetVersion(int* version) {
  *version = 12090;
  return kSuccess;
}
FAKE Result cuGetErrorName(Result result, const char** name) {
  *name = result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                                                   : "CUDA_ERROR_FAKE";
  return kSuccess;
}
FAKE Result cuGetErrorString(Result result, const char** name) {
  *name = result == 2     ? "out of memory"
          : result == 100 ? "no CUDA-capable device is detected"
          : result == 700 ? "an illegal memory access was encountered"
                          : "a fake error";
  return kSuccess;
}
FAKE Result cuDeviceGetCount(int* count) {
  NOTE("cuDeviceGetCount");
  *count = kDevices;
  return kSuccess;
}
FAKE Result cuDeviceGet(DeviceHandle* device, int ordinal) {
  NOTE("cuDeviceGet", ordinal);
  *device = ordinal;
  return kSuccess;
}
FAKE Result cuDeviceGetName(char* name, int size, DeviceHandle device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake %d", device);
  return kSuccess;
}
FAKE Result cuDeviceGetAttribute(int* value, int attribute, DeviceHandle) {
  *value = attribute == 75 ? 9 : attribute == 115 ? state().pools : 0;
  return kSuccess;
}
FAKE Result cuDeviceTotalMem_v2(size_t* bytes, DeviceHandle) {
  *bytes = size_t{1} << 33;
  return kSuccess;
}
FAKE Result cuPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
  auto it = state().memory.upper_bound(pointer);
  if (it == state().memory.begin() || attribute != 9) return 1;
  --it;
  if (pointer >= it->first + it->second.bytes) return 1;
  *static_cast<int*>(value) = it->second.device;
  return kSuccess;
}
FAKE Result cuDeviceCanAccessPeer(int* can, DeviceHandle, DeviceHandle) {
  *can = 1;
  return kSuccess;
}
FAKE Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceHandle device) {
  NOTE("cuDevicePrimaryCtxRetain", device);
  auto& known = primary()[static_cast<size_t>(device)];
  if (known == nullptr) known = make<ContextHandle>("context");
  *context = known;
  return kSuccess;
}
FAKE Result cuCtxGetCurrent(ContextHandle* context) {
  *context = t_contexts.empty() ? nullptr : t_contexts.back();
  return kSuccess;
}
FAKE Result cuCtxPushCurrent_v2(ContextHandle context) {
  NOTE("cuCtxPushCurrent", static_cast<void*>(context));
  t_contexts.push_back(context);
  return kSuccess;
}
FAKE Result cuCtxPopCurrent_v2(ContextHandle* context) {
  NOTE("cuCtxPopCurrent");
  if (t_contexts.empty()) return 201;
  *context = t_contexts.back();
  t_contexts.pop_back();
  return kSuccess;
}
FAKE Result cuCtxSynchronize() {
  NOTE("cuCtxSynchronize");
  return current_device() < 0 ? 201 : kSuccess;
}
FAKE Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return kSuccess;
}
FAKE Result cuCtxEnablePeerAccess(ContextHandle peer, unsigned flags) {
  NOTE("cuCtxEnablePeerAccess", static_cast<void*>(peer), flags);
  return kSuccess;
}
FAKE Result cuCtxDisablePeerAccess(ContextHandle peer) {
  NOTE("cuCtxDisablePeerAccess", static_cast<void*>(peer));
  return kSuccess;
}
FAKE Result cuModuleLoadDataEx(ModuleHandle* module, const void* image, unsigned count, int* names,
                               void** values) {
  NOTE("cuModuleLoadDataEx", current_device(), std::strlen(static_cast<const char*>(image)));
  if (current_device() < 0 || count != 4 || names[0] != 5 || values[1] == nullptr) return 1;
  // A kernel that a capture would need is loaded before.
  if (!state().captures.empty()) return 900;
  *module = make<ModuleHandle>("module");
  return kSuccess;
}
FAKE Result cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  NOTE("cuModuleGetFunction", static_cast<void*>(module), std::string(name));
  *function = make<FunctionHandle>("function");
  state().names[*function] += std::string("=") + name;
  return kSuccess;
}
FAKE Result cuFuncGetAttribute(int* value, int attribute, FunctionHandle) {
  *value = attribute == 0 ? 1024 : 0;
  return kSuccess;
}
FAKE Result cuLaunchKernel(FunctionHandle function, unsigned gx, unsigned gy, unsigned gz,
                           unsigned bx, unsigned by, unsigned bz, unsigned shared,
                           StreamHandle stream, void** parameters, void** extra) {
  std::string name = text(static_cast<void*>(function));
  name = name.substr(name.find('=') + 1);
  if (name == "kc_set_condition") return set_condition(stream, parameters);
  Grid grid = *static_cast<const Grid*>(parameters[1]);
  int64_t begin = 0, end = 0;
  std::memcpy(&begin, parameters[2], 8);
  std::memcpy(&end, parameters[3], 8);
  std::string dims;
  for (int64_t extent : grid.dims) dims += (dims.empty() ? "" : "x") + std::to_string(extent);
  NOTE("cuLaunchKernel", name, gx, bx, static_cast<void*>(stream), dims,
       static_cast<long long>(begin), static_cast<long long>(end));
  if (current_device() < 0 || gy * gz * by * bz != 1 || shared != 0 || extra != nullptr) return 1;
  auto it = state().kernels.find(name);
  if (it == state().kernels.end()) return 1;
  auto [kernel, block_bytes] = it->second;
  std::vector<char> block(static_cast<char*>(parameters[0]),
                          static_cast<char*>(parameters[0]) + block_bytes);
  state().last_block = block;
  // The processor's code reads its block at any multiple of 16.
  return enqueue(stream, [=]() mutable {
    alignas(16) char aligned[32768];
    std::memcpy(aligned, block.data(), block.size());
    kernel(aligned, &grid, begin, end);
  });
}
FAKE Result cuStreamCreateWithPriority(StreamHandle* stream, unsigned flags, int priority) {
  *stream = make<StreamHandle>("own");
  NOTE("cuStreamCreateWithPriority", static_cast<void*>(*stream), flags, priority);
  return current_device() < 0 ? 201 : kSuccess;
}
FAKE Result cuStreamDestroy_v2(StreamHandle stream) {
  NOTE("cuStreamDestroy", static_cast<void*>(stream));
  return kSuccess;
}
FAKE Result cuStreamSynchronize(StreamHandle stream) {
  NOTE("cuStreamSynchronize", static_cast<void*>(stream));
  return kSuccess;
}
FAKE Result cuStreamQuery(StreamHandle stream) {
  NOTE("cuStreamQuery", static_cast<void*>(stream));
  return kSuccess;
}
FAKE Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned flags) {
  NOTE("cuStreamWaitEvent", static_cast<void*>(stream), static_cast<void*>(event), flags);
  return kSuccess;
}
FAKE Result cuEventCreate(EventHandle* event, unsigned flags) {
  *event = make<EventHandle>("event");
  NOTE("cuEventCreate", static_cast<void*>(*event), flags);
  return current_device() < 0 ? 201 : kSuccess;
}
FAKE Result cuEventDestroy_v2(EventHandle event) {
  NOTE("cuEventDestroy", static_cast<void*>(event));
  return kSuccess;
}
FAKE Result cuEventRecord(EventHandle event, StreamHandle stream) {
  NOTE("cuEventRecord", static_cast<void*>(event), static_cast<void*>(stream));
  return kSuccess;
}
FAKE Result cuEventSynchronize(EventHandle event) {
  NOTE("cuEventSynchronize", static_cast<void*>(event));
  return kSuccess;
}
FAKE Result cuEventQuery(EventHandle event) {
  NOTE("cuEventQuery", static_cast<void*>(event));
  return kSuccess;
}
FAKE Result cuEventElapsedTime(float* ms, EventHandle, EventHandle) {
  *ms = 1.5F;
  return kSuccess;
}
FAKE Result cuMemPoolCreate(PoolHandle* pool, const PoolProperties* properties) {
  NOTE("cuMemPoolCreate", properties->allocation_type, properties->location.type,
       properties->location.id);
  *pool = make<PoolHandle>("pool");
  return kSuccess;
}
FAKE Result cuMemPoolSetAttribute(PoolHandle pool, int attribute, void* value) {
  NOTE("cuMemPoolSetAttribute", static_cast<void*>(pool), attribute,
       *static_cast<unsigned long long*>(value));
  return kSuccess;
}
FAKE Result cuMemPoolGetAttribute(PoolHandle, int, void* value) {
  *static_cast<unsigned long long*>(value) = 0;
  return kSuccess;
}
FAKE Result cuMemPoolTrimTo(PoolHandle pool, size_t bytes) {
  NOTE("cuMemPoolTrimTo", static_cast<void*>(pool), bytes);
  return kSuccess;
}
FAKE Result cuMemPoolSetAccess(PoolHandle pool, const AccessDescription* access, size_t count) {
  NOTE("cuMemPoolSetAccess", static_cast<void*>(pool), access->location.id, access->flags, count);
  return kSuccess;
}
FAKE Result cuMemAllocFromPoolAsync(DevicePointer* pointer, size_t bytes, PoolHandle pool,
                                    StreamHandle stream) {
  NOTE("cuMemAllocFromPoolAsync", bytes, static_cast<void*>(pool), static_cast<void*>(stream));
  *pointer = allocate(bytes, current_device(), false);
  return kSuccess;
}
FAKE Result cuMemFreeAsync(DevicePointer pointer, StreamHandle stream) {
  NOTE("cuMemFreeAsync", static_cast<void*>(stream));
  return release(pointer) ? kSuccess : 1;
}
FAKE Result cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
  NOTE("cuMemAlloc", bytes);
  *pointer = allocate(bytes, current_device(), false);
  return kSuccess;
}
FAKE Result cuMemFree_v2(DevicePointer pointer) {
  NOTE("cuMemFree");
  return release(pointer) ? kSuccess : 1;
}
FAKE Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  *free_bytes = size_t{1} << 32;
  *total = size_t{1} << 33;
  return kSuccess;
}
FAKE Result cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  NOTE("cuMemHostAlloc", bytes, flags);
  *pointer = reinterpret_cast<void*>(allocate(bytes, 0, true));
  return kSuccess;
}
FAKE Result cuMemFreeHost(void* pointer) {
  NOTE("cuMemFreeHost");
  return release(reinterpret_cast<uintptr_t>(pointer)) ? kSuccess : 1;
}
FAKE Result cuMemHostGetDevicePointer_v2(DevicePointer* pointer, void* memory, unsigned) {
  *pointer = reinterpret_cast<DevicePointer>(memory);
  return kSuccess;
}
FAKE Result cuMemcpyHtoDAsync_v2(DevicePointer target, const void* source, size_t bytes,
                                 StreamHandle stream) {
  NOTE("cuMemcpyHtoDAsync", bytes, static_cast<void*>(stream));
  return enqueue(stream, [=] { std::memcpy(host(target), source, bytes); });
}
FAKE Result cuMemcpyDtoHAsync_v2(void* target, DevicePointer source, size_t bytes,
                                 StreamHandle stream) {
  NOTE("cuMemcpyDtoHAsync", bytes, static_cast<void*>(stream));
  return enqueue(stream, [=] { std::memcpy(target, host(source), bytes); });
}
FAKE Result cuMemcpyDtoDAsync_v2(DevicePointer target, DevicePointer source, size_t bytes,
                                 StreamHandle stream) {
  NOTE("cuMemcpyDtoDAsync", bytes, static_cast<void*>(stream));
  return enqueue(stream, [=] { std::memmove(host(target), host(source), bytes); });
}
FAKE Result cuMemcpyPeerAsync(DevicePointer target, ContextHandle to, DevicePointer source,
                              ContextHandle from, size_t bytes, StreamHandle stream) {
  NOTE("cuMemcpyPeerAsync", static_cast<void*>(to), static_cast<void*>(from), bytes,
       static_cast<void*>(stream));
  return enqueue(stream, [=] { std::memcpy(host(target), host(source), bytes); });
}
FAKE Result cuMemcpy2DAsync_v2(const CopyRows* rows, StreamHandle stream) {
  NOTE("cuMemcpy2DAsync", rows->source.memory_type, rows->target.memory_type, rows->width_bytes,
       rows->height, static_cast<void*>(stream));
  auto side = [](const CopySide& s) {
    return static_cast<char*>(s.memory_type == kHostMemory ? const_cast<void*>(s.host)
                                                           : host(s.device));
  };
  if (rows->source.pitch_bytes < rows->width_bytes) return 1;
  if (rows->target.pitch_bytes < rows->width_bytes) return 1;
  return enqueue(stream, [copy = *rows, to = side(rows->target), from = side(rows->source)] {
    for (size_t k = 0; k < copy.height; ++k) {
      std::memcpy(to + k * copy.target.pitch_bytes, from + k * copy.source.pitch_bytes,
                  copy.width_bytes);
    }
  });
}
FAKE Result cuMemsetD8Async(DevicePointer target, unsigned char value, size_t count,
                            StreamHandle stream) {
  NOTE("cuMemsetD8Async", static_cast<unsigned>(value), count, static_cast<void*>(stream));
  return enqueue(stream, [=] { std::memset(host(target), value, count); });
}
FAKE Result cuMemsetD32Async(DevicePointer target, unsigned value, size_t count,
                             StreamHandle stream) {
  NOTE("cuMemsetD32Async", value, count, static_cast<void*>(stream));
  return enqueue(stream, [=] {
    for (size_t k = 0; k < count; ++k) static_cast<unsigned*>(host(target))[k] = value;
  });
}
FAKE Result cuStreamBeginCapture_v2(StreamHandle stream, int mode) {
  NOTE("cuStreamBeginCapture", static_cast<void*>(stream), mode);
  if (reinterpret_cast<uintptr_t>(stream) < 16) return 900;
  state().captures[stream] = reinterpret_cast<Graph*>(new Graph());
  return kSuccess;
}
FAKE Result cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  NOTE("cuStreamEndCapture", static_cast<void*>(stream));
  *graph = reinterpret_cast<GraphHandle>(state().captures[stream]);
  state().captures.erase(stream);
  return kSuccess;
}
FAKE Result cuGraphInstantiateWithFlags(GraphExecHandle* exec, GraphHandle graph,
                                        unsigned long long flags) {
  NOTE("cuGraphInstantiate", reinterpret_cast<Graph*>(graph)->nodes.size(), flags);
  *exec = reinterpret_cast<GraphExecHandle>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return kSuccess;
}
FAKE Result cuGraphLaunch(GraphExecHandle exec, StreamHandle stream) {
  NOTE("cuGraphLaunch", static_cast<void*>(stream));
  auto* graph = reinterpret_cast<Graph*>(exec);
  auto it = state().captures.find(stream);
  if (it != state().captures.end()) {
    it->second->nodes.push_back({[graph] { run(*graph); }});
  } else {
    run(*graph);
  }
  return kSuccess;
}
FAKE Result cuGraphDestroy(GraphHandle) {
  NOTE("cuGraphDestroy");
  return kSuccess;
}
FAKE Result cuGraphExecDestroy(GraphExecHandle) {
  NOTE("cuGraphExecDestroy");
  return kSuccess;
}
FAKE Result cuGraphExecUpdate_v2(GraphExecHandle exec, GraphHandle graph, GraphUpdateInfo* info) {
  NOTE("cuGraphExecUpdate");
  auto* old = reinterpret_cast<Graph*>(exec);
  auto* fresh = reinterpret_cast<Graph*>(graph);
  bool is_alike = old->nodes.size() == fresh->nodes.size();
  info->result = is_alike ? 0 : 1;
  if (!is_alike) return 910;
  *old = *fresh;
  return kSuccess;
}
FAKE Result cuStreamGetCaptureInfo_v2(StreamHandle stream, int* status, unsigned long long* id,
                                      GraphHandle* graph, const GraphNodeHandle** dependencies,
                                      size_t* count) {
  auto it = state().captures.find(stream);
  *status = it == state().captures.end() ? 0 : 1;
  *id = 1;
  if (*status == 0) return kSuccess;
  *graph = reinterpret_cast<GraphHandle>(it->second);
  *dependencies = nullptr;
  *count = 0;
  return kSuccess;
}
FAKE Result cuStreamUpdateCaptureDependencies(StreamHandle stream, GraphNodeHandle*, size_t count,
                                              unsigned flags) {
  NOTE("cuStreamUpdateCaptureDependencies", static_cast<void*>(stream), count, flags);
  return kSuccess;
}
FAKE Result cuStreamBeginCaptureToGraph(StreamHandle stream, GraphHandle graph,
                                        const GraphNodeHandle*, const void*, size_t, int mode) {
  NOTE("cuStreamBeginCaptureToGraph", static_cast<void*>(stream), mode);
  state().captures[stream] = reinterpret_cast<Graph*>(graph);
  return kSuccess;
}
FAKE Result cuGraphConditionalHandleCreate(ConditionHandle* handle, GraphHandle, ContextHandle,
                                           unsigned initial, unsigned flags) {
  NOTE("cuGraphConditionalHandleCreate", initial, flags);
  *handle = static_cast<ConditionHandle>(++state().counts["condition"]);
  return kSuccess;
}
FAKE Result cuGraphAddNode(GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle*,
                           size_t count, ConditionalNode* parameters) {
  NOTE("cuGraphAddNode", parameters->node_type, parameters->kind, parameters->size, count);
  static std::vector<GraphHandle> bodies;
  auto* body = new Graph();
  bodies.assign(1, reinterpret_cast<GraphHandle>(body));
  parameters->bodies = bodies.data();
  Node made;
  made.condition = parameters->condition;
  made.repeats = parameters->kind == 1;
  made.body = body;
  reinterpret_cast<Graph*>(graph)->nodes.push_back(made);
  *node = reinterpret_cast<GraphNodeHandle>(body);
  return kSuccess;
}
