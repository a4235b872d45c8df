#include "xla/call.h"

#include "core/error.h"
#include "xla/element_type.h"

namespace kernelcore::ffi {
namespace {

// Buffers were typed when the program was built: a mismatch here is a defect, not a user error.
void read_buffer(const LaunchDescriptor& descriptor, size_t index, const void* source,
                 ArrayView& view) {
  const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(source);
  const ParameterSlot& slot = descriptor.slots[index];
  int ndim = slot.role == Role::kValue ? 0 : slot.ndim;
  // A call that XLA cuts over devices has one more axis, of extent 1.
  bool has_unit_axis = buffer.rank == ndim + 1 && ndim > 0 && buffer.dims[ndim] == 1;
  if (buffer.dtype != xla_dtype(slot.dtype) || (buffer.rank != ndim && !has_unit_axis)) {
    throw Error(ErrorKind::kInternal,
                descriptor.name + "(): parameter " + std::to_string(index) + ": expected " +
                    describe_array(name_of(slot.dtype), ndim) + ", found XLA type " +
                    std::to_string(buffer.dtype) + " with " + std::to_string(buffer.rank));
  }
  view.data = buffer.data;
  view.ndim = ndim;
  view.item_bytes = static_cast<int64_t>(size_bytes(slot.dtype));
  for (int k = 0; k < ndim; ++k) view.shape[k] = buffer.dims[k];
  view.set_contiguous();
  descriptor.check_shape(index, view);
}

/// Buffer `index` of the call: an operand, or a result behind them.
const void* buffer_at(const XLA_FFI_CallFrame& frame, int64_t index) {
  int64_t result = index - frame.args.size;
  if (result >= frame.rets.size) {
    throw Error(ErrorKind::kInternal, "kernelcore: the program has too few buffers");
  }
  return result < 0 ? frame.args.args[index] : frame.rets.rets[result];
}

}  // namespace

void read_buffers(const Plan& plan, const XLA_FFI_CallFrame& frame, ArrayView* views) {
  for (const BufferUse& use : plan.buffers) {
    const void* buffer = buffer_at(frame, static_cast<int64_t>(use.buffer));
    read_buffer(plan.launches[use.launch].descriptor, use.parameter, buffer, views[use.buffer]);
  }
}

Launch read_grid(const PlannedLaunch& planned, const XLA_FFI_CallFrame& frame) {
  int64_t dims[kMaxGridDims];
  for (size_t k = 0; k < planned.grid.size(); ++k) {
    const DimRule& rule = planned.grid[k];
    if (rule.operand < 0) {
      dims[k] = rule.value;
      continue;
    }
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(buffer_at(frame, rule.operand));
    if (rule.axis < 0 || rule.axis >= buffer->rank)
      throw Error(ErrorKind::kInternal, "grid names no axis");
    dims[k] = buffer->dims[rule.axis];
  }
  return make_launch(planned.descriptor, {dims, planned.grid.size()});
}

}  // namespace kernelcore::ffi
