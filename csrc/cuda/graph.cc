#include "cuda/graph.h"

#include <string>
#include <utility>

#include "cuda/capture.h"

namespace kernelcore::cuda {
namespace {

// Work of other threads is not captured.
constexpr int kThreadLocal = 1;
constexpr unsigned kSetDependencies = 1;
constexpr int kIf = 0;
constexpr int kWhile = 1;

// A condition of a graph is set by a kernel: whether any of some bytes is not zero.
constexpr const char* kConditionSymbol = "kc_set_condition";
constexpr const char* kConditionImage = R"(.version 7.0
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry kc_set_condition(
  .param .u64 condition, .param .u64 address, .param .u32 size, .param .u32 negated)
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [condition];
  ld.param.u64 %rd2, [address];
  ld.param.u32 %r1, [size];
  ld.param.u32 %r2, [negated];
  mov.u64 %rd3, 0;
  mov.u32 %r3, 0;
$next:
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra $done;
  cvt.u64.u32 %rd4, %r3;
  add.u64 %rd5, %rd2, %rd4;
  ld.u8 %rd6, [%rd5];
  or.b64 %rd3, %rd3, %rd6;
  add.u32 %r3, %r3, 1;
  bra $next;
$done:
  setp.ne.u64 %p2, %rd3, 0;
  selp.u32 %r3, 1, 0, %p2;
  xor.b32 %r3, %r3, %r2;
  {
    .param .b64 handle;
    .param .b32 value;
    st.param.b64 [handle], %rd1;
    st.param.b32 [value], %r3;
    call.uni cudaGraphSetConditional, (handle, value);
  }
  ret;
}
)";

LoadedFunction condition_function(Device& device) {
  return device.load(kConditionSymbol, kConditionImage, kConditionSymbol);
}

void set_condition(const Stream& stream, ConditionHandle condition, const void* address,
                   size_t bytes, bool is_negated) {
  auto pointer = reinterpret_cast<DevicePointer>(address);
  auto size = static_cast<unsigned>(bytes);
  unsigned negated = is_negated ? 1 : 0;
  void* parameters[] = {&condition, &pointer, &size, &negated};
  Device& device = stream.device();
  ScopedContext current(device);
  check(device.driver().launch_kernel(condition_function(device).handle, 1, 1, 1, 1, 1, 1, 0,
                                      stream.handle(), parameters, nullptr),
        "cuLaunchKernel");
}

void capture_body(const std::shared_ptr<Stream>& stream, GraphHandle graph,
                  ConditionHandle condition, const void* address, size_t bytes,
                  const Branch& branch) {
  Device& device = stream->device();
  std::shared_ptr<Stream> inner = Stream::create(device, 0);
  ScopedContext current(device);
  check(device.driver().capture_to_graph(inner->handle(), graph, nullptr, nullptr, 0, kThreadLocal),
        "cuStreamBeginCaptureToGraph");
  inner->set_capture(stream->capture());
  GraphHandle ended = nullptr;
  try {
    branch.body(inner);
    if (branch.repeats) set_condition(*inner, condition, address, bytes, branch.is_negated);
  } catch (...) {
    static_cast<void>(device.driver().end_capture(inner->handle(), &ended));
    throw;
  }
  check(device.driver().end_capture(inner->handle(), &ended), "cuStreamEndCapture");
}

}  // namespace

void GraphUses::add_owner(std::shared_ptr<Stream> stream, bool is_tied) {
  for (Owner& known : owners) {
    if (known.stream->handle() != stream->handle()) continue;
    known.is_tied |= is_tied;
    return;
  }
  owners.push_back({std::move(stream), is_tied});
}

Graph::~Graph() {
  // Launched work finishes. At the end of the process the driver may be unloaded.
  if (exec_ != nullptr && !is_forked()) static_cast<void>(device_.driver().destroy_exec(exec_));
}

void Graph::capture(const Fill& fill) {
  std::shared_ptr<Stream> stream = Stream::create(device_, 0);
  const DriverTable& driver = device_.driver();
  ScopedContext current(device_);
  check(driver.begin_capture(stream->handle(), kThreadLocal), "cuStreamBeginCapture");
  GraphUses uses;
  stream->set_capture(&uses);
  GraphHandle graph = nullptr;
  try {
    fill(stream);
  } catch (...) {
    static_cast<void>(driver.end_capture(stream->handle(), &graph));
    if (graph != nullptr) static_cast<void>(driver.destroy_graph(graph));
    throw;
  }
  check(driver.end_capture(stream->handle(), &graph), "cuStreamEndCapture");
  // What the previous graph used is let go behind the lock.
  std::unique_lock lock(mutex_);
  try {
    instantiate(graph);
  } catch (...) {
    static_cast<void>(driver.destroy_graph(graph));
    throw;
  }
  check(driver.destroy_graph(graph), "cuGraphDestroy");
  std::swap(uses_, uses);
  lock.unlock();
}

void Graph::instantiate(GraphHandle graph) {
  const DriverTable& driver = device_.driver();
  if (exec_ != nullptr && driver.update_exec != nullptr) {
    GraphUpdateInfo info{};
    if (driver.update_exec(exec_, graph, &info) == kSuccess) return;
  }
  GraphExecHandle made = nullptr;
  check(driver.instantiate(&made, graph, 0), "cuGraphInstantiate");
  if (exec_ != nullptr) static_cast<void>(driver.destroy_exec(exec_));
  exec_ = made;
}

void Graph::launch(const std::shared_ptr<Stream>& stream) const {
  std::lock_guard lock(mutex_);
  for (const auto& allocation : uses_.memory) order_use(stream, allocation);
  for (const auto& [owner, is_tied] : uses_.owners) {
    if (owner->handle() != stream->handle()) stream->wait_for_owner(*owner);
  }
  ScopedContext current(device_);
  check(device_.driver().launch_graph(exec_, stream->handle()), "cuGraphLaunch");
  for (const auto& [owner, is_tied] : uses_.owners) {
    if (is_tied && owner->handle() != stream->handle()) owner->wait_for(*stream);
  }
}

bool prepare_branches(Device& device) {
  const DriverTable& driver = device.driver();
  if (driver.create_condition == nullptr || driver.add_node == nullptr ||
      driver.capture_to_graph == nullptr || driver.update_capture == nullptr) {
    return false;
  }
  condition_function(device);
  return true;
}

void add_branches(const std::shared_ptr<Stream>& stream, const void* condition, size_t bytes,
                  const std::vector<Branch>& branches) {
  Device& device = stream->device();
  const DriverTable& driver = device.driver();
  ScopedContext current(device);
  std::vector<ConditionHandle> handles;
  for (const Branch& branch : branches) {
    ConditionHandle handle = 0;
    check(driver.create_condition(&handle, capture_of(*stream).graph, device.context(), 0, 0),
          "cuGraphConditionalHandleCreate");
    set_condition(*stream, handle, condition, bytes, branch.is_negated);
    handles.push_back(handle);
  }
  for (size_t k = 0; k < branches.size(); ++k) {
    Capture capture = capture_of(*stream);
    ConditionalNode parameters;
    parameters.condition = handles[k];
    parameters.kind = branches[k].repeats ? kWhile : kIf;
    parameters.context = device.context();
    GraphNodeHandle node = nullptr;
    check(driver.add_node(&node, capture.graph, capture.last, capture.count, &parameters),
          "cuGraphAddNode");
    check(driver.update_capture(stream->handle(), &node, 1, kSetDependencies),
          "cuStreamUpdateCaptureDependencies");
    capture_body(stream, parameters.bodies[0], handles[k], condition, bytes, branches[k]);
  }
}

}  // namespace kernelcore::cuda
