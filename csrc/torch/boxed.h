// The boxed kernel of every torch operator, which needs no Python.
#pragma once

#include "torch/operation.h"
#include "torch/shim.h"

extern "C" {

/// Runs `operation` on the stack of a boxed call: owns the inputs, leaves the results.
///
/// Boxed kernels get no context, so each operator registers a thunk that adds the last argument.
/// Throws a C++ exception, which torch turns into a Python one.
void kernelcore_torch_boxed(kernelcore::torch::StableIValue* stack, uint64_t inputs,
                            uint64_t outputs, const kernelcore::torch::Operation* operation);
}
