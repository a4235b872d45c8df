#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/graph.h"
#include "cuda/kernel.h"
#include "xla/call.h"
#include "xla/call_site.h"
#include "xla/plan.h"
#include "xla/state.h"

namespace kernelcore::ffi {
namespace {

/// The ordinal of a device and the addresses of buffers there.
using GraphKey = std::vector<uintptr_t>;

/// Graphs of a call site, each for the buffers of one call: as many as programs have sets of
/// buffers in turn. The least recently used one is dropped.
class GraphCache {
 public:
  static constexpr size_t kMaxGraphs = 16;

  /// The graph of `key`, or null.
  std::shared_ptr<const cuda::Graph> find(const GraphKey& key) {
    std::lock_guard lock(mutex_);
    auto it = std::ranges::find(graphs_, key, [](const auto& entry) { return entry.first; });
    if (it == graphs_.end()) return nullptr;
    graphs_.splice(graphs_.begin(), graphs_, it);
    return graphs_.front().second;
  }

  void add(GraphKey key, std::shared_ptr<const cuda::Graph> graph) {
    decltype(graphs_) dropped;  // Destroyed after the lock is released.
    std::lock_guard lock(mutex_);
    graphs_.emplace_front(std::move(key), std::move(graph));
    if (graphs_.size() > kMaxGraphs) dropped.splice(dropped.begin(), graphs_, --graphs_.end());
  }

 private:
  std::mutex mutex_;
  std::list<std::pair<GraphKey, std::shared_ptr<const cuda::Graph>>> graphs_;  // latest first
};

/// The state of a call site.
struct CallSite {
  std::shared_ptr<const Plan> plan;
  GraphCache graphs;
};

cuda::Device& device_of(const XLA_FFI_CallFrame& frame) {
  int ordinal = read_device(frame);
  if (ordinal < 0) throw Error(ErrorKind::kInternal, "kernelcore: XLA does not name the device");
  return cuda::Device::get(ordinal);
}

std::shared_ptr<cuda::Stream> stream_of(const XLA_FFI_CallFrame& frame) {
  void* handle = read_stream(frame);
  if (handle == nullptr) {
    throw Error(ErrorKind::kInternal, "kernelcore: XLA does not name the stream");
  }
  return cuda::Stream::wrap(device_of(frame), reinterpret_cast<uintptr_t>(handle));
}

std::unique_ptr<CallSite> make_site(const XLA_FFI_Attrs& attributes) {
  auto site = std::make_unique<CallSite>();
  site->plan = find_or_make_plan(attributes);
  for (const PlannedLaunch& planned : site->plan->launches) {
    if (planned.kernel != nullptr) continue;
    throw Error(ErrorKind::kInternal, planned.descriptor.name + "(): no code for devices");
  }
  return site;
}

// A module that is loaded while a device waits for another may wait for both; and whatever captures
// a run must not see what an earlier one has failed of.
void initialize(const XLA_FFI_CallFrame& frame, CallSite& site) {
  cuda::Device& device = device_of(frame);
  for (const PlannedLaunch& planned : site.plan->launches) planned.kernel->prepare(device);
  try {
    for (const PlannedLaunch& planned : site.plan->launches) planned.kernel->raise_failure(device);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(error.what()) +
                                  "\n  note: in an earlier run, which JAX did not wait for");
  }
}

void queue_launches(const XLA_FFI_CallFrame& frame, const Plan& plan, const ArrayView* views,
                    const cuda::Stream& stream) {
  for (const PlannedLaunch& planned : plan.launches) {
    Launch launch = read_grid(planned, frame);
    cuda::DeviceBackend backend(*planned.kernel, stream, {planned.block_threads});
    run_functional(planned.descriptor, views, views, launch, backend);
  }
}

void execute(const XLA_FFI_CallFrame& frame, CallSite& site) {
  const Plan& plan = *site.plan;
  ViewBuffer views(plan.buffer_count);
  read_buffers(plan, frame, views.data());
  queue_launches(frame, plan, views.data(), *stream_of(frame));
}

void execute_graph(const XLA_FFI_CallFrame& frame, CallSite& site) {
  const Plan& plan = *site.plan;
  ViewBuffer views(plan.buffer_count);
  read_buffers(plan, frame, views.data());
  cuda::Device& device = device_of(frame);
  GraphKey key{static_cast<uintptr_t>(device.ordinal())};
  for (const BufferUse& use : plan.buffers) {
    key.push_back(reinterpret_cast<uintptr_t>(views[use.buffer].data));
  }
  std::shared_ptr<const cuda::Graph> graph = site.graphs.find(key);
  if (graph == nullptr) {
    auto made = std::make_shared<cuda::Graph>(device);
    made->capture([&](const std::shared_ptr<cuda::Stream>& stream) {
      queue_launches(frame, plan, views.data(), *stream);
    });
    graph = made;
    site.graphs.add(std::move(key), graph);
  }
  graph->launch(stream_of(frame));
}

}  // namespace

std::vector<Registration> cuda_registrations() {
  constexpr auto kCapturable = XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
  return {registration("xla_cuda_instantiate", &instantiate_handler<CallSite, make_site>),
          registration("xla_cuda_initialize", &site_handler<CallSite, initialize>),
          registration("xla_cuda_execute", &site_handler<CallSite, execute, kCapturable>),
          registration("xla_cuda_execute_graph", &site_handler<CallSite, execute_graph>),
          {"xla_cuda_type_id", &SiteState<CallSite>::id},
          {"xla_cuda_type_info", &SiteState<CallSite>::info}};
}

}  // namespace kernelcore::ffi
