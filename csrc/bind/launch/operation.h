// Operations as Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "core/run/operation.h"
#include "torch/boxed.h"

namespace kernelcore::bind {

/// An operation that thunks, fast entries and derivatives share.
struct BoundOperation {
  std::shared_ptr<const Operation> operation;
  std::shared_ptr<const torch::DeviceOperation> on_devices;  // of torch's CUDA tensors; or null
};

/// The same on CUDA tensors.
struct BoundDeviceOperation {
  std::shared_ptr<const torch::DeviceOperation> operation;
};

}  // namespace kernelcore::bind
