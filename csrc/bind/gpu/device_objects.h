// Streams, events and memory of CUDA devices as Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "bind/array/array_info.h"
#include "cuda/memory.h"

namespace kernelcore::bind {

/// Memory that kernelcore has allocated, and where it is.
struct DeviceBuffer {
  std::shared_ptr<cuda::Allocation> allocation;  // null where there are no bytes
  DLDevice device;
};

void bind_device_objects(nanobind::module_& m);

}  // namespace kernelcore::bind
