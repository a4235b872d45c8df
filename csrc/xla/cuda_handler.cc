#include <memory>
#include <vector>

#include "cuda/functional.h"
#include "kernelcore/xla_cuda_handler.h"
#include "xla/call.h"
#include "xla/context.h"
#include "xla/errors.h"
#include "xla/graphs.h"
#include "xla/plan_store.h"

namespace kernelcore::ffi {
namespace {

/// A plan whose steps run on devices.
struct DevicePlan : Plan {
  std::vector<std::unique_ptr<cuda::DeviceKernel>> kernels;  // per step
};

/// The state of a call site.
struct CallSite {
  std::shared_ptr<const Plan> plan;
  GraphCache graphs;

  const DevicePlan& device_plan() const { return static_cast<const DevicePlan&>(*plan); }
};

std::unique_ptr<const Plan> make_device_plan(const XLA_FFI_Attrs& attributes) {
  auto plan = std::make_unique<DevicePlan>();
  static_cast<Plan&>(*plan) = make_plan(attributes);
  for (const Step& step : plan->steps) {
    if (step.image == nullptr) {
      throw Error(ErrorKind::kInternal, step.descriptor.name + "(): no code for devices");
    }
    plan->kernels.push_back(std::make_unique<cuda::DeviceKernel>(step.descriptor, *step.image,
                                                                 "kc_" + step.descriptor.key));
  }
  return plan;
}

void delete_site(void* site) {
  delete static_cast<CallSite*>(site);
}

XLA_FFI_TypeId g_site_type{0};  // XLA assigns the number when the type is registered
XLA_FFI_TypeInfo g_site_info{XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, delete_site};

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

XLA_FFI_Error* instantiate(XLA_FFI_CallFrame* frame) {
  auto site = std::make_unique<CallSite>();
  site->plan = find_or_make_plan(frame->attrs, make_device_plan);
  XLA_FFI_Error* error = set_state(frame, &g_site_type, site.get(), delete_site);
  if (error == nullptr) static_cast<void>(site.release());
  return error;
}

/// Calls `body` with the state of the call site.
template <class Body>
XLA_FFI_Error* with_site(XLA_FFI_CallFrame* frame, Body body) {
  void* state = nullptr;
  if (XLA_FFI_Error* error = get_state(frame, &g_site_type, &state)) return error;
  body(*static_cast<CallSite*>(state));
  return nullptr;
}

// A module that is loaded while a device waits for another may wait for both; and whatever captures
// a run must not see what an earlier one has failed of.
void initialize(const XLA_FFI_CallFrame& frame, const DevicePlan& plan) {
  cuda::Device& device = device_of(frame);
  for (const auto& kernel : plan.kernels) kernel->prepare(device);
  try {
    for (const auto& kernel : plan.kernels) kernel->raise_failure(device);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(error.what()) +
                                  "\n  note: in an earlier run, which JAX did not wait for");
  }
}

void queue_steps(const XLA_FFI_CallFrame& frame, const DevicePlan& plan, const ArrayView* views,
                 const cuda::Stream& stream) {
  for (size_t k = 0; k < plan.steps.size(); ++k) {
    const Step& step = plan.steps[k];
    Launch launch = read_grid(step, frame);
    cuda::queue_functional(*plan.kernels[k], views, views, launch, stream, {step.block_threads});
  }
}

void execute(const XLA_FFI_CallFrame& frame, const DevicePlan& plan) {
  ViewBuffer views(plan.buffer_count);
  read_buffers(plan, frame, views.data());
  queue_steps(frame, plan, views.data(), *stream_of(frame));
}

void execute_graph(const XLA_FFI_CallFrame& frame, CallSite& site) {
  const DevicePlan& plan = site.device_plan();
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
      queue_steps(frame, plan, views.data(), *stream);
    });
    graph = made;
    site.graphs.add(std::move(key), graph);
  }
  graph->launch(stream_of(frame));
}

}  // namespace
}  // namespace kernelcore::ffi

extern "C" {

XLA_FFI_Error* kernelcore_xla_cuda_instantiate(XLA_FFI_CallFrame* frame) {
  using namespace kernelcore::ffi;
  if (answer_metadata(frame, &g_site_type)) return nullptr;
  return guarded(frame, [frame] { return instantiate(frame); });
}

XLA_FFI_Error* kernelcore_xla_cuda_initialize(XLA_FFI_CallFrame* frame) {
  using namespace kernelcore::ffi;
  if (answer_metadata(frame, nullptr)) return nullptr;
  return guarded(frame, [frame] {
    return with_site(frame, [&](CallSite& site) { initialize(*frame, site.device_plan()); });
  });
}

XLA_FFI_Error* kernelcore_xla_cuda_execute(XLA_FFI_CallFrame* frame) {
  using namespace kernelcore::ffi;
  if (answer_metadata(frame, nullptr, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE)) {
    return nullptr;
  }
  return guarded(frame, [frame] {
    return with_site(frame, [&](CallSite& site) { execute(*frame, site.device_plan()); });
  });
}

XLA_FFI_Error* kernelcore_xla_cuda_execute_graph(XLA_FFI_CallFrame* frame) {
  using namespace kernelcore::ffi;
  if (answer_metadata(frame, nullptr)) return nullptr;
  return guarded(frame, [frame] {
    return with_site(frame, [&](CallSite& site) { execute_graph(*frame, site); });
  });
}

void* kernelcore_xla_cuda_type_id() {
  return &kernelcore::ffi::g_site_type;
}

void* kernelcore_xla_cuda_type_info() {
  return &kernelcore::ffi::g_site_info;
}
}
