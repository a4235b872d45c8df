#include "core/run/functional.h"

#include <algorithm>
#include <cstring>

#include "core/memory/argument_block.h"
#include "core/memory/copy.h"
#include "core/memory/small_buffer.h"

namespace kernelcore {
namespace {

bool covers_result(const LaunchDescriptor& descriptor, const ParameterSlot& slot,
                   const Launch& launch, const ArrayView& result) {
  return slot.outer_ndim() == descriptor.grid_rank &&
         std::equal(result.shape, result.shape + slot.outer_ndim(), launch.grid.dims);
}

bool needs_zeros(const LaunchDescriptor& descriptor, const ParameterSlot& slot,
                 const Launch& launch, const ArrayView& result) {
  if (slot.role == Role::kScratch) return true;
  switch (slot.zero) {
    case ZeroFill::kNever:
      return false;
    case ZeroFill::kIfPartial:
      return !covers_result(descriptor, slot, launch, result);
    case ZeroFill::kAlways:
      break;
  }
  return true;
}

void prepare_result(const LaunchDescriptor& descriptor, const ParameterSlot& slot,
                    const ArrayView* operands, const Launch& launch, const ArrayView& result) {
  switch (start_of(descriptor, slot, operands, launch, result)) {
    case Start::kAnything:
      break;
    case Start::kZeros:
      std::memset(result.data, 0, result.size_bytes());
      break;
    case Start::kOperand:
      copy_to_contiguous(result.data, operands[slot.operand]);
  }
}

}  // namespace

Start start_of(const LaunchDescriptor& descriptor, const ParameterSlot& slot,
               const ArrayView* operands, const Launch& launch, const ArrayView& result) {
  if (slot.operand >= 0) {
    return operands[slot.operand].data == result.data ? Start::kAnything : Start::kOperand;
  }
  return needs_zeros(descriptor, slot, launch, result) ? Start::kZeros : Start::kAnything;
}

void run_functional(const LaunchDescriptor& descriptor, const ArrayView* operands,
                    const ArrayView* results, Launch& launch, Executor& executor) {
  ArgumentBlock block(descriptor);
  SmallBuffer<ArrayView, 16> views(descriptor.grid_indexed_axes.empty() ? 0
                                                                        : descriptor.slots.size());
  for (size_t i = 0; !descriptor.grid_indexed_axes.empty() && i < descriptor.slots.size(); ++i) {
    const ParameterSlot& slot = descriptor.slots[i];
    if (slot.role != Role::kValue)
      views[i] = slot.role == Role::kInput ? operands[slot.operand] : results[slot.result];
  }
  check_grid_indexed_axes(descriptor, views.data(), launch);
  for (const ParameterSlot& slot : descriptor.slots) {
    if (slot.role == Role::kValue) {
      if (slot.operand >= 0) {
        std::memcpy(block.field(slot), operands[slot.operand].data, size_bytes(slot.dtype));
      }
    } else if (slot.role == Role::kInput) {
      block.write(slot, operands[slot.operand]);
    } else {
      prepare_result(descriptor, slot, operands, launch, results[slot.result]);
      block.write(slot, results[slot.result]);
    }
  }
  run(descriptor, block.data(), launch, executor);
}

}  // namespace kernelcore
