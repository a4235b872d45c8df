// Operators on CUDA tensors.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

/// Adds TorchDeviceOperation to `m`.
void bind_torch_device(nanobind::module_& m);

}  // namespace kernelcore::bind
