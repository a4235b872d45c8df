#include "core/run/functional.h"

#include <algorithm>
#include <cstring>

#include "core/memory/argument_block.h"
#include "core/memory/array_view.h"

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

/// Makes `result` what the kernel starts from.
void prepare_result(const LaunchDescriptor& descriptor, const ParameterSlot& slot,
                    const ArrayView* operands, const Launch& launch, const ArrayView& result,
                    Backend& backend) {
  if (slot.operand >= 0) {
    const ArrayView& source = operands[slot.operand];
    if (source.data != result.data) backend.copy(result, source);
  } else if (needs_zeros(descriptor, slot, launch, result)) {
    backend.clear(result);
  }
}

}  // namespace

void HostBackend::clear(const ArrayView& array) {
  if (array.numel() != 0) std::memset(array.data, 0, array.size_bytes());
}

void HostBackend::copy(const ArrayView& target, const ArrayView& source) {
  copy_to_contiguous(target.data, source);
}

void HostBackend::run(const LaunchDescriptor& descriptor, const std::byte* block, Launch& launch) {
  kernelcore::run(descriptor, block, launch, executor_);
}

void run_functional(const LaunchDescriptor& descriptor, const ArrayView* operands,
                    const ArrayView* results, Launch& launch, Backend& backend) {
  ArgumentBlock block(descriptor);
  auto array_of = [&](const ParameterSlot& slot) -> const ArrayView& {
    return slot.role == Role::kInput ? operands[slot.operand] : results[slot.result];
  };
  for (const GridIndexedAxis& indexed : descriptor.grid_indexed_axes) {
    check_extent(descriptor, indexed, array_of(descriptor.slots[indexed.parameter]), launch);
  }
  for (const GridIndexedAxis& covered : descriptor.covered_axes) {
    check_covered(descriptor, covered, array_of(descriptor.slots[covered.parameter]), launch);
  }
  for (const ParameterSlot& slot : descriptor.slots) {
    if (slot.role == Role::kValue) {
      if (slot.operand < 0) continue;
      std::memcpy(block.field(slot), operands[slot.operand].data, size_bytes(slot.dtype));
      continue;
    }
    const ArrayView& array = array_of(slot);
    if (slot.is_written()) prepare_result(descriptor, slot, operands, launch, array, backend);
    block.write(slot, array);
  }
  backend.run(descriptor, block.data(), launch);
}

}  // namespace kernelcore
