// The torch half of the module: shim, operations, fast entries.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

/// Adds the torch_* functions and TorchOperation to `m`.
void bind_torch(nanobind::module_& m);

}  // namespace kernelcore::bind
