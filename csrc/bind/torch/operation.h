// The Python faces of a torch operation.
#pragma once

#include <memory>

#include "torch/device_boxed.h"
#include "torch/operation.h"

namespace kernelcore::bind {

/// An operation on CUDA tensors.
struct TorchDeviceOperation {
  std::shared_ptr<const torch::DeviceOperation> operation;
};

/// An operation that thunks, fast entries and derivatives share.
struct TorchOperation {
  std::shared_ptr<const torch::Operation> operation;
  std::shared_ptr<const torch::DeviceOperation> on_devices;  // null: on CPU tensors only
};

}  // namespace kernelcore::bind
