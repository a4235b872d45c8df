#include "cuda/functional.h"

#include <cstring>

#include "core/error.h"
#include "core/memory/argument_block.h"
#include "core/memory/small_buffer.h"
#include "core/run/functional.h"
#include "cuda/memory.h"

namespace kernelcore::cuda {
namespace {

void prepare_result(const LaunchDescriptor& descriptor, const ParameterSlot& slot,
                    const ArrayView* operands, const Launch& launch, const ArrayView& result,
                    const Stream& stream) {
  switch (start_of(descriptor, slot, operands, launch, result)) {
    case Start::kAnything:
      break;
    case Start::kZeros:
      fill(stream, result.data, result.size_bytes(), 0, 1);
      break;
    case Start::kOperand:
      copy_elements(stream, CopyKind::kOnDevice, result, operands[slot.operand]);
  }
}

}  // namespace

void queue_functional(DeviceKernel& kernel, const ArrayView* operands, const ArrayView* results,
                      Launch& launch, const Stream& stream, const Geometry& geometry,
                      bool has_host_values) {
  const LaunchDescriptor& descriptor = kernel.descriptor();
  ArgumentBlock block(descriptor);
  SmallBuffer<ArrayView, 16> views(descriptor.slots.size());
  for (size_t i = 0; i < descriptor.slots.size(); ++i) {
    const ParameterSlot& slot = descriptor.slots[i];
    if (slot.role == Role::kValue) {
      if (slot.operand < 0) continue;
      if (has_host_values) {
        std::memcpy(block.field(slot), operands[slot.operand].data, size_bytes(slot.dtype));
        continue;
      }
      throw Error(ErrorKind::kInternal, descriptor.name +
                                            "(): a value of which only the device "
                                            "knows the number");
    }
    views[i] = slot.role == Role::kInput ? operands[slot.operand] : results[slot.result];
    block.write(slot, views[i]);
  }
  check_grid_indexed_axes(descriptor, views.data(), launch);
  for (size_t i = 0; i < descriptor.slots.size(); ++i) {
    const ParameterSlot& slot = descriptor.slots[i];
    if (slot.is_written()) prepare_result(descriptor, slot, operands, launch, views[i], stream);
  }
  kernel.launch(stream, block.data(), launch, geometry);
}

}  // namespace kernelcore::cuda
