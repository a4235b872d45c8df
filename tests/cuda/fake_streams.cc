// What streams of the fake driver are given: kernels, events and graphs, over at once.
#include <cstring>

#include "fake_driver.h"

namespace kernelcore::fake {

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

namespace {

constexpr int kUnsupported = 900;
constexpr int kInvalidated = 901;
constexpr int kIsolation = 905;
constexpr int kImplicit = 906;

thread_local int t_capture_mode = 0;

Graph* captured_by(StreamHandle stream) {
  auto it = state().captures.find(stream);
  return it == state().captures.end() ? nullptr : it->second;
}

Result end_capture(Graph* graph, Result result) {
  graph->is_valid = false;
  return result;
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

Result forbid_in_captures() {
  return state().captures.empty() || t_capture_mode == 2 ? kSuccess : wait_for_all();
}

Result wait_for_all() {
  for (auto& [stream, graph] : state().captures) graph->is_valid = false;
  return state().captures.empty() ? kSuccess : kUnsupported;
}

Result wait_for(StreamHandle stream) {
  Graph* graph = captured_by(stream);
  return graph == nullptr ? kSuccess : end_capture(graph, kUnsupported);
}

}  // namespace kernelcore::fake

using namespace kernelcore;
using namespace kernelcore::fake;

FAKE void fake_register(const char* symbol, void* function, size_t block_bytes) {
  state().kernels[symbol] = {reinterpret_cast<KernelFn>(function), block_bytes};
}
FAKE size_t fake_last_block(void* target) {
  std::memcpy(target, state().last_block.data(), state().last_block.size());
  return state().last_block.size();
}

FAKE Result cuModuleLoadDataEx(ModuleHandle* module, const void* image, unsigned count, int* names,
                               void** values) {
  NOTE("cuModuleLoadDataEx", current_device(), std::strlen(static_cast<const char*>(image)));
  if (current_device() < 0 || count != 4 || names[0] != 5 || values[1] == nullptr) return 1;
  GIVE(forbid_in_captures());
  *module = make<ModuleHandle>("module");
  return kSuccess;
}
FAKE Result cuModuleLoadData(ModuleHandle* module, const void* image) {
  NOTE("cuModuleLoadData", current_device(), std::strlen(static_cast<const char*>(image)));
  *module = make<ModuleHandle>("module");
  return current_device() < 0 ? 201 : kSuccess;
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
  if (state().is_idle) return kSuccess;
  GIVE(state().broken);
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
  return wait_for(stream);
}
FAKE Result cuStreamQuery(StreamHandle stream) {
  NOTE("cuStreamQuery", static_cast<void*>(stream));
  GIVE(forbid_in_captures());
  return wait_for(stream);
}
FAKE Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned flags) {
  NOTE("cuStreamWaitEvent", static_cast<void*>(stream), static_cast<void*>(event), flags);
  Graph *graph = captured_by(stream), *recorded = state().recorded[event];
  if (graph == recorded) return kSuccess;
  if (recorded == nullptr) return end_capture(graph, kIsolation);
  bool can_join = graph == nullptr && reinterpret_cast<uintptr_t>(stream) >= 16;
  if (!can_join) return end_capture(recorded, kImplicit);
  state().captures[stream] = recorded;
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
  state().recorded[event] = captured_by(stream);
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

FAKE Result cuStreamBeginCapture_v2(StreamHandle stream, int mode) {
  NOTE("cuStreamBeginCapture", static_cast<void*>(stream), mode);
  if (reinterpret_cast<uintptr_t>(stream) < 16) return 900;
  state().captures[stream] = reinterpret_cast<Graph*>(new Graph());
  return kSuccess;
}
FAKE Result cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, t_capture_mode);
  return kSuccess;
}
FAKE Result cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  NOTE("cuStreamEndCapture", static_cast<void*>(stream));
  Graph* captured = captured_by(stream);
  std::erase_if(state().captures, [&](const auto& entry) { return entry.second == captured; });
  if (captured == nullptr) return 1;
  if (!captured->is_valid) captured->kept.clear();
  *graph = captured->is_valid ? reinterpret_cast<GraphHandle>(captured) : nullptr;
  return captured->is_valid ? kSuccess : kInvalidated;
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
FAKE Result cuGraphDestroy(GraphHandle graph) {
  NOTE("cuGraphDestroy");
  reinterpret_cast<Graph*>(graph)->kept.clear();
  return kSuccess;
}
FAKE Result cuGraphExecDestroy(GraphExecHandle exec) {
  NOTE("cuGraphExecDestroy");
  reinterpret_cast<Graph*>(exec)->kept.clear();
  return kSuccess;
}
FAKE Result cuUserObjectCreate(UserObjectHandle* object, void* data, void (*destroy)(void*),
                               unsigned count, unsigned flags) {
  NOTE("cuUserObjectCreate", count, flags);
  *object = reinterpret_cast<UserObjectHandle>(new std::shared_ptr<void>(data, destroy));
  return count == 1 && flags == 1 ? kSuccess : 1;
}
FAKE Result cuUserObjectRelease(UserObjectHandle object, unsigned count) {
  NOTE("cuUserObjectRelease", count);
  delete reinterpret_cast<std::shared_ptr<void>*>(object);
  return kSuccess;
}
FAKE Result cuGraphRetainUserObject(GraphHandle graph, UserObjectHandle object, unsigned count,
                                    unsigned flags) {
  NOTE("cuGraphRetainUserObject", count, flags);
  if (count != 1 || flags != 1) return 1;
  auto* kept = reinterpret_cast<std::shared_ptr<void>*>(object);
  reinterpret_cast<Graph*>(graph)->kept.push_back(std::move(*kept));
  delete kept;
  return kSuccess;
}
FAKE Result cuStreamIsCapturing(StreamHandle stream, int* status) {
  GIVE(state().broken);
  Graph* graph = captured_by(stream);
  *status = graph == nullptr ? 0 : graph->is_valid ? 1 : 2;
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
  *status = it == state().captures.end() ? 0 : it->second->is_valid ? 1 : 2;
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
