#include "torch/boxed.h"

#include "core/run/pool.h"
#include "torch/stack.h"

namespace kernelcore::torch {
namespace {

void run_boxed(StableIValue* stack, const Operation& op) {
  OwnedTensors inputs(op.operands.size());
  own_operands(op, stack, inputs);
  ViewBuffer operands(op.operands.size());
  read_host_operands(op, stack, operands.data());
  ViewBuffer results(op.results.size());
  OwnedTensors outputs(op.visible_count);
  for (size_t i = 0; i < op.visible_count; ++i) {
    op.shape_result(i, operands.data(), results[i]);
    outputs.add(allocate(op, op.results[i].dtype, {shim().cpu, 0}, results[i]));
  }
  OperationRun(op, operands.data(), results.data()).run(Pool::instance());
  inputs.clear();
  outputs.release_to(stack);
}

}  // namespace
}  // namespace kernelcore::torch

extern "C" void kernelcore_torch_boxed(kernelcore::torch::StableIValue* stack, uint64_t, uint64_t,
                                       const kernelcore::Operation* operation) {
  kernelcore::torch::run_boxed(stack, *operation);
}
