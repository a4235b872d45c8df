// Runs of kernels on CUDA devices, and copies of arrays that are there.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

void bind_device_launch(nanobind::module_& m);

}  // namespace kernelcore::bind
