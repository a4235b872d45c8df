#include "core/functional.h"

#include <algorithm>

#include "core/copy.h"
#include "core/error.h"
#include "core/small_buffer.h"

namespace kernelcore {
namespace {

bool covers_result(const Signature& signature, const Launch& launch, const ArrayView& result) {
  return result.ndim == signature.grid_rank &&
         std::equal(result.shape, result.shape + result.ndim, launch.grid.dims);
}

bool needs_zeros(const Signature& signature, const Relocation& r, const Launch& launch,
                 const ArrayView& result) {
  if (r.role == Role::kScratch) return true;
  switch (r.zero) {
    case ZeroFill::kNever:
      return false;
    case ZeroFill::kIfPartial:
      return !covers_result(signature, launch, result);
    case ZeroFill::kAlways:
      break;
  }
  return true;
}

void prepare_result(const Signature& signature, const Relocation& r, const ArrayView* operands,
                    const Launch& launch, const ArrayView& result) {
  size_t item_bytes = size_bytes(r.dtype);
  if (r.operand >= 0) {
    // A framework that lets the result reuse the operand's memory has made the copy already.
    const ArrayView& operand = operands[r.operand];
    if (operand.data != result.data) copy_to_contiguous(result.data, operand, item_bytes);
  } else if (needs_zeros(signature, r, launch, result)) {
    zero_fill(result.data, result.numel(), item_bytes);
  }
}

}  // namespace

void run_functional(const Signature& signature, const ArrayView* operands, const ArrayView* results,
                    Launch& launch, Executor& executor) {
  BlockBuffer block(signature.block_bytes);
  if (!signature.block_template.empty()) {
    std::memcpy(block.data(), signature.block_template.data(), signature.block_bytes);
  }
  for (const Relocation& r : signature.relocations) {
    std::byte* field = block.data() + r.offset;
    if (r.role == Role::kValue) {
      if (r.operand >= 0) std::memcpy(field, operands[r.operand].data, size_bytes(r.dtype));
    } else if (r.role == Role::kInput) {
      write_field(field, operands[r.operand]);
    } else {
      prepare_result(signature, r, operands, launch, results[r.result]);
      write_field(field, results[r.result]);
    }
  }
  run(signature, block.data(), launch, executor);
}

void check_extents(const Signature& signature, size_t index, const ArrayView& view) {
  int axis = oversized_axis(view);
  if (axis < 0) return;
  throw signature.argument_error(index,
                                 "expected extents below 2**31, found " +
                                     std::to_string(view.shape[axis]) + " on axis " +
                                     std::to_string(axis),
                                 "split the array: indices of kernels have 32 bits");
}

}  // namespace kernelcore
