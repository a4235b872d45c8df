#include "core/run/functional.h"
#include "xla/call.h"
#include "xla/call_site.h"
#include "xla/plan.h"
#include "xla/pool.h"

namespace kernelcore::ffi {
namespace {

/// The state of a call site.
using SharedPlan = std::shared_ptr<const Plan>;

std::unique_ptr<SharedPlan> make_site(const XLA_FFI_Attrs& attributes) {
  return std::make_unique<SharedPlan>(find_or_make_plan(attributes));
}

void execute(const XLA_FFI_CallFrame& frame, SharedPlan& plan) {
  ViewBuffer views(plan->buffer_count);
  read_buffers(*plan, frame, views.data());
  XlaPool pool(frame);
  HostBackend backend(pool);
  for (const PlannedLaunch& planned : plan->launches) {
    Launch launch = read_grid(planned, frame);
    run_functional(planned.descriptor, views.data(), views.data(), launch, backend);
  }
}

}  // namespace

std::vector<Registration> host_registrations() {
  return {registration("xla_instantiate", &instantiate_handler<SharedPlan, make_site>),
          registration("xla_execute", &site_handler<SharedPlan, execute>),
          {"xla_type_id", &SiteState<SharedPlan>::id},
          {"xla_type_info", &SiteState<SharedPlan>::info}};
}

}  // namespace kernelcore::ffi
