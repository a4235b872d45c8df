#include <memory>

#include "core/run/functional.h"
#include "kernelcore/xla_handler.h"
#include "xla/call.h"
#include "xla/errors.h"
#include "xla/plan_store.h"
#include "xla/pool.h"
#include "xla/state.h"

namespace kernelcore::ffi {
namespace {

/// The state of a call site.
using SharedPlan = std::shared_ptr<const Plan>;

std::unique_ptr<const Plan> make_host_plan(const XLA_FFI_Attrs& attributes) {
  return std::make_unique<const Plan>(make_plan(attributes));
}

void delete_plan(void* plan) {
  delete static_cast<SharedPlan*>(plan);
}

XLA_FFI_TypeId g_plan_type{0};  // XLA assigns the number when the type is registered
XLA_FFI_TypeInfo g_plan_info{XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, delete_plan};

XLA_FFI_Error* instantiate(XLA_FFI_CallFrame* frame) {
  auto plan = std::make_unique<SharedPlan>(find_or_make_plan(frame->attrs, make_host_plan));
  XLA_FFI_Error* error = set_state(frame, &g_plan_type, plan.get(), delete_plan);
  if (error == nullptr) static_cast<void>(plan.release());
  return error;
}

XLA_FFI_Error* execute(XLA_FFI_CallFrame* frame) {
  void* state = nullptr;
  if (XLA_FFI_Error* error = get_state(frame, &g_plan_type, &state)) return error;
  const Plan& plan = **static_cast<const SharedPlan*>(state);
  ViewBuffer views(plan.buffer_count);
  read_buffers(plan, *frame, views.data());
  XlaPool pool(*frame);
  for (const Step& step : plan.steps) {
    Launch launch = read_grid(step, *frame);
    run_functional(step.descriptor, views.data(), views.data(), launch, pool);
  }
  return nullptr;
}

}  // namespace
}  // namespace kernelcore::ffi

extern "C" {

XLA_FFI_Error* kernelcore_xla_instantiate(XLA_FFI_CallFrame* frame) {
  using namespace kernelcore::ffi;
  if (answer_metadata(frame, &g_plan_type)) return nullptr;
  return guarded(frame, [frame] { return instantiate(frame); });
}

XLA_FFI_Error* kernelcore_xla_execute(XLA_FFI_CallFrame* frame) {
  using namespace kernelcore::ffi;
  if (answer_metadata(frame, nullptr)) return nullptr;
  return guarded(frame, [frame] { return execute(frame); });
}

void* kernelcore_xla_type_id() {
  return &kernelcore::ffi::g_plan_type;
}

void* kernelcore_xla_type_info() {
  return &kernelcore::ffi::g_plan_info;
}

size_t kernelcore_xla_plan_count() {
  return kernelcore::ffi::count_plans();
}
}
