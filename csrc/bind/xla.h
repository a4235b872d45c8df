// The XLA half of the module.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

/// Adds the handlers that run kernels, and Python functions as handlers.
void bind_xla(nanobind::module_& m);

}  // namespace kernelcore::bind
