// The halves of an autograd.Function that run an operation and its adjoint without Python.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

/// Adds `TorchAdjoint`, `TorchGradPlan`, and what makes the members of an autograd function.
void bind_torch_autograd(nanobind::module_& m);

}  // namespace kernelcore::bind
