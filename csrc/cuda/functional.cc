#include "cuda/functional.h"

#include <cstring>

#include "core/error.h"
#include "core/memory/argument_block.h"
#include "core/memory/small_buffer.h"
#include "core/run/functional.h"
#include "cuda/memory.h"

namespace kernelcore::cuda {
namespace {

void prepare_result(const Signature& signature, const Relocation& r, const ArrayView* operands,
                    const Launch& launch, const ArrayView& result, const Stream& stream) {
  size_t item_bytes = size_bytes(r.dtype);
  switch (start_of(signature, r, operands, launch, result)) {
    case Start::kAnything:
      break;
    case Start::kZeros:
      fill(stream, result.data, static_cast<size_t>(result.numel()) * item_bytes, 0, 1);
      break;
    case Start::kOperand:
      copy_elements(stream, CopyKind::kOnDevice, result, operands[r.operand], item_bytes);
  }
}

}  // namespace

void queue_functional(DeviceKernel& kernel, const ArrayView* operands, const ArrayView* results,
                      Launch& launch, const Stream& stream, const Geometry& geometry,
                      bool has_host_values) {
  const Signature& signature = kernel.signature();
  ArgumentBlock block(signature);
  SmallBuffer<ArrayView, 16> views(signature.relocations.size());
  for (size_t i = 0; i < signature.relocations.size(); ++i) {
    const Relocation& r = signature.relocations[i];
    if (r.role == Role::kValue) {
      if (r.operand < 0) continue;
      if (has_host_values) {
        std::memcpy(block.field(r), operands[r.operand].data, size_bytes(r.dtype));
        continue;
      }
      throw Error(ErrorKind::kInternal, signature.name +
                                            "(): a value of which only the device "
                                            "knows the number");
    }
    views[i] = r.role == Role::kInput ? operands[r.operand] : results[r.result];
    block.write(r, views[i]);
  }
  check_reach(signature, views.data(), launch);
  for (size_t i = 0; i < signature.relocations.size(); ++i) {
    const Relocation& r = signature.relocations[i];
    if (r.is_written()) prepare_result(signature, r, operands, launch, views[i], stream);
  }
  kernel.launch(stream, block.data(), launch, geometry);
}

}  // namespace kernelcore::cuda
