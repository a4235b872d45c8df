#include "core/run/functional.h"

#include <algorithm>
#include <cstring>

#include "core/memory/argument_block.h"
#include "core/memory/copy.h"
#include "core/memory/small_buffer.h"

namespace kernelcore {
namespace {

bool covers_result(const Signature& signature, const Relocation& r, const Launch& launch,
                   const ArrayView& result) {
  return r.outer_ndim() == signature.grid_rank &&
         std::equal(result.shape, result.shape + r.outer_ndim(), launch.grid.dims);
}

bool needs_zeros(const Signature& signature, const Relocation& r, const Launch& launch,
                 const ArrayView& result) {
  if (r.role == Role::kScratch) return true;
  switch (r.zero) {
    case ZeroFill::kNever:
      return false;
    case ZeroFill::kIfPartial:
      return !covers_result(signature, r, launch, result);
    case ZeroFill::kAlways:
      break;
  }
  return true;
}

void prepare_result(const Signature& signature, const Relocation& r, const ArrayView* operands,
                    const Launch& launch, const ArrayView& result) {
  size_t item_bytes = size_bytes(r.dtype);
  switch (start_of(signature, r, operands, launch, result)) {
    case Start::kAnything:
      break;
    case Start::kZeros:
      zero_fill(result.data, result.numel(), item_bytes);
      break;
    case Start::kOperand:
      copy_to_contiguous(result.data, operands[r.operand], item_bytes);
  }
}

}  // namespace

Start start_of(const Signature& signature, const Relocation& r, const ArrayView* operands,
               const Launch& launch, const ArrayView& result) {
  if (r.operand >= 0) {
    return operands[r.operand].data == result.data ? Start::kAnything : Start::kOperand;
  }
  return needs_zeros(signature, r, launch, result) ? Start::kZeros : Start::kAnything;
}

void run_functional(const Signature& signature, const ArrayView* operands, const ArrayView* results,
                    Launch& launch, Executor& executor) {
  ArgumentBlock block(signature);
  SmallBuffer<ArrayView, 16> views(signature.reaches.empty() ? 0 : signature.relocations.size());
  for (size_t i = 0; !signature.reaches.empty() && i < signature.relocations.size(); ++i) {
    const Relocation& r = signature.relocations[i];
    if (r.role != Role::kValue)
      views[i] = r.role == Role::kInput ? operands[r.operand] : results[r.result];
  }
  check_reach(signature, views.data(), launch);
  for (const Relocation& r : signature.relocations) {
    if (r.role == Role::kValue) {
      if (r.operand >= 0) {
        std::memcpy(block.field(r), operands[r.operand].data, size_bytes(r.dtype));
      }
    } else if (r.role == Role::kInput) {
      block.write(r, operands[r.operand]);
    } else {
      prepare_result(signature, r, operands, launch, results[r.result]);
      block.write(r, results[r.result]);
    }
  }
  run(signature, block.data(), launch, executor);
}

}  // namespace kernelcore
