// The boxed kernels of every torch operator, on CPU and CUDA tensors, which need no Python.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/run/operation.h"
#include "cuda/kernel.h"
#include "torch/shim.h"

namespace kernelcore::torch {

/// An operation as one device runs it. Its scalars are arrays where the schema has tensors.
struct PlacedOperation {
  std::shared_ptr<const Operation> operation;
  std::shared_ptr<cuda::DeviceKernel> kernel;
};

/// An operation on devices, whose code is made when a device is first used.
class DeviceOperation {
 public:
  using Make = std::function<PlacedOperation(int ordinal)>;

  /// `is_tensor` says what the schema takes; `make` is called without a lock.
  DeviceOperation(std::vector<bool> is_tensor, Make make)
      : is_tensor_(std::move(is_tensor)), make_(std::move(make)) {}

  const std::vector<bool>& is_tensor() const { return is_tensor_; }

  const PlacedOperation& on(int ordinal) const;

  /// Makes the code, and throws why an earlier run failed, as far as it is known.
  void prepare(int ordinal) const;

 private:
  const std::vector<bool> is_tensor_;
  const Make make_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const PlacedOperation>> placed_;  // by ordinal
};

}  // namespace kernelcore::torch

extern "C" {

/// Runs `operation` on the stack of a boxed call: owns the inputs, leaves the results.
///
/// Boxed kernels get no context, so each operator registers a thunk that adds the last argument.
/// Throws a C++ exception, which torch turns into a Python one.
void kernelcore_torch_boxed(kernelcore::torch::StableIValue* stack, uint64_t inputs,
                            uint64_t outputs, const kernelcore::Operation* operation);

/// As kernelcore_torch_boxed, in the current stream of the first CUDA tensor's device.
///
/// Operands and results of a call belong to torch's allocator, in the order of that stream: what is
/// freed while the kernel is queued is reused behind it. Nothing waits, so a graph may capture it.
void kernelcore_torch_device_boxed(kernelcore::torch::StableIValue* stack, uint64_t inputs,
                                   uint64_t outputs,
                                   const kernelcore::torch::DeviceOperation* operation);
}
