// The torch half of the module.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

/// Adds everything below, and the functions that bind torch.
void bind_torch(nanobind::module_& m);

/// Adds TorchDeviceOperation: operators on CUDA tensors.
void bind_torch_device(nanobind::module_& m);

/// Adds `torch_fast_entry`: eager calls past torch's dispatcher, where that changes nothing.
void bind_fast_entry(nanobind::module_& m);

/// Adds the halves of an autograd.Function that run an operation and its adjoint without Python.
void bind_torch_autograd(nanobind::module_& m);

}  // namespace kernelcore::bind
