#include "torch/boxed.h"

#include "core/functional.h"
#include "core/pool.h"
#include "torch/stack.h"

namespace kernelcore::torch {
namespace {

void read_operand(const Operation& op, size_t index, StableIValue& slot, ArrayView& view) {
  if (!op.operands[index].is_array) {
    read_number(op, index, slot, view);
    return;
  }
  Place place = read_tensor(op, index, reinterpret_cast<TensorHandle>(slot), view);
  if (place.device_type != shim().cpu) {
    refuse_operand(op, index, "a tensor in CPU memory", "one on another device");
  }
}

void run_boxed(StableIValue* stack, const Operation& op) {
  size_t operand_count = op.operands.size();
  OwnedTensors inputs(operand_count);
  for (size_t i = 0; i < operand_count; ++i) {
    if (op.operands[i].is_array) inputs.add(reinterpret_cast<TensorHandle>(stack[i]));
  }
  ViewBuffer operands(operand_count);
  for (size_t i = 0; i < operand_count; ++i) {
    read_operand(op, i, stack[i], operands[i]);
  }
  ViewBuffer results(op.results.size());
  OwnedTensors outputs(op.visible_count);
  for (size_t i = 0; i < op.visible_count; ++i) {
    op.shape_result(i, operands.data(), results[i]);
    outputs.add(allocate(op, op.results[i].dtype, {shim().cpu, 0}, results[i]));
  }
  HiddenResults hidden(op, operands.data(), results.data());
  Launch launch = op.launch_for(operands.data(), results.data());
  run_functional(op.signature, operands.data(), results.data(), launch, Pool::instance());
  inputs.clear();
  outputs.release_to(stack);
}

}  // namespace
}  // namespace kernelcore::torch

extern "C" void kernelcore_torch_boxed(kernelcore::torch::StableIValue* stack, uint64_t, uint64_t,
                                       const kernelcore::torch::Operation* operation) {
  kernelcore::torch::run_boxed(stack, *operation);
}
