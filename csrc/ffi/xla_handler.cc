#include "kernelcore/xla_handler.h"

#include <memory>
#include <new>

#include "core/error.h"
#include "core/functional.h"
#include "ffi/xla_plan_store.h"
#include "ffi/xla_pool.h"
#include "ffi/xla_state.h"

namespace kernelcore::ffi {
namespace {

/// The state of a call site.
using SharedPlan = std::shared_ptr<const Plan>;

void delete_plan(void* plan) {
  delete static_cast<SharedPlan*>(plan);
}

XLA_FFI_TypeId g_plan_type{0};  // XLA assigns the number when the type is registered
XLA_FFI_TypeInfo g_plan_info{XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, delete_plan};

XLA_FFI_Error* make_error(const XLA_FFI_CallFrame* frame, XLA_FFI_Error_Code code,
                          const char* message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = code;
  return frame->api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error_Code code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kArgument:
    case ErrorKind::kElsewhere:
      return XLA_FFI_Error_Code_INVALID_ARGUMENT;
    case ErrorKind::kDevice:
      return XLA_FFI_Error_Code_UNAVAILABLE;
    case ErrorKind::kMemory:
      return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    case ErrorKind::kAssertion:
    case ErrorKind::kIndex:
      return XLA_FFI_Error_Code_FAILED_PRECONDITION;
    case ErrorKind::kUnknownKernel:
      return XLA_FFI_Error_Code_NOT_FOUND;
    case ErrorKind::kInternal:
      break;
  }
  return XLA_FFI_Error_Code_INTERNAL;
}

/// Runs `body`, whose exceptions become XLA errors.
template <class Body>
XLA_FFI_Error* guarded(const XLA_FFI_CallFrame* frame, Body body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    return make_error(frame, code_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return make_error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "kernelcore: out of memory");
  }
}

// Buffers were typed when the program was built: a mismatch here is a defect, not a user error.
void read_buffer(const Signature& signature, size_t index, const void* source, ArrayView& view) {
  const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(source);
  const Relocation& r = signature.relocations[index];
  int ndim = r.role == Role::kValue ? 0 : r.ndim;
  // A call that XLA cuts over devices has one more axis, of extent 1.
  bool has_unit_axis = buffer.rank == ndim + 1 && ndim > 0 && buffer.dims[ndim] == 1;
  if (buffer.dtype != xla_dtype(r.dtype) || (buffer.rank != ndim && !has_unit_axis)) {
    throw Error(ErrorKind::kInternal, signature.name + "(): parameter " + std::to_string(index) +
                                          ": expected " + describe_array(name_of(r.dtype), ndim) +
                                          ", found XLA type " + std::to_string(buffer.dtype) +
                                          " with " + std::to_string(buffer.rank));
  }
  view.data = buffer.data;
  view.ndim = ndim;
  for (int k = 0; k < ndim; ++k) view.shape[k] = buffer.dims[k];
  view.set_contiguous(size_bytes(r.dtype));
  signature.check_shape(index, view);
}

/// Buffer `index` of the call: an operand, or a result behind them.
const void* buffer_at(const XLA_FFI_CallFrame* frame, int64_t index) {
  int64_t result = index - frame->args.size;
  if (result >= frame->rets.size) {
    throw Error(ErrorKind::kInternal, "kernelcore: the program has too few buffers");
  }
  return result < 0 ? frame->args.args[index] : frame->rets.rets[result];
}

Launch read_grid(const Step& step, const XLA_FFI_CallFrame* frame) {
  int64_t dims[kMaxGridDims];
  for (size_t k = 0; k < step.grid.size(); ++k) {
    const DimRule& rule = step.grid[k];
    if (rule.operand < 0) {
      dims[k] = rule.value;
      continue;
    }
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(buffer_at(frame, rule.operand));
    if (rule.axis >= buffer->rank) throw Error(ErrorKind::kInternal, "grid names no axis");
    dims[k] = buffer->dims[rule.axis];
  }
  return make_launch(step.signature, {dims, step.grid.size()});
}

XLA_FFI_Error* instantiate(XLA_FFI_CallFrame* frame) {
  auto plan = std::make_unique<SharedPlan>(find_or_make_plan(frame->attrs));
  XLA_FFI_Error* error = set_state(frame, &g_plan_type, plan.get(), delete_plan);
  if (error == nullptr) static_cast<void>(plan.release());
  return error;
}

XLA_FFI_Error* execute(XLA_FFI_CallFrame* frame) {
  void* state = nullptr;
  if (XLA_FFI_Error* error = get_state(frame, &g_plan_type, &state)) return error;
  const Plan& plan = **static_cast<const SharedPlan*>(state);
  ViewBuffer views(plan.buffer_count);
  for (const BufferUse& use : plan.buffers) {
    const void* buffer = buffer_at(frame, static_cast<int64_t>(use.buffer));
    read_buffer(plan.steps[use.step].signature, use.parameter, buffer, views[use.buffer]);
  }
  XlaPool pool(*frame);
  for (const Step& step : plan.steps) {
    Launch launch = read_grid(step, frame);
    run_functional(step.signature, views.data(), views.data(), launch, pool);
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
