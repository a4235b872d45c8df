// The boxed kernel of the .out overload of torch operators.
#pragma once

#include "torch/operation.h"
#include "torch/shim.h"

extern "C" {

/// As kernelcore_torch_boxed; after the operands there are tensors that take the results, and that
/// it returns. Nothing is allocated for those that are contiguous.
void kernelcore_torch_boxed_out(kernelcore::torch::StableIValue* stack, uint64_t inputs,
                                uint64_t outputs, const kernelcore::torch::Operation* operation);
}
