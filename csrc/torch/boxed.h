// Operations as torch runs them on CPU and CUDA tensors; their boxed kernel needs no Python.
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

/// The stream that torch uses on a CUDA device.
std::shared_ptr<cuda::Stream> current_stream(int ordinal);

/// An operation as one device runs it. Its scalars are arrays where the schema has tensors.
struct PlacedOperation {
  std::shared_ptr<const Operation> operation;
  std::shared_ptr<cuda::DeviceKernel> kernel;

  /// Queues a run on results that all have memory; throws why an earlier run failed.
  void run(const ArrayView* operands, const ArrayView* results, const cuda::Stream& stream) const;
};

/// An operation on devices, whose code is made when a device is first used.
class DeviceOperation {
 public:
  using Make = std::function<PlacedOperation(int ordinal)>;

  /// `make` is called without a lock.
  explicit DeviceOperation(Make make) : make_(std::move(make)) {}

  const PlacedOperation& on(int ordinal) const;

  /// Makes the code, and throws why an earlier run failed, as far as it is known.
  void prepare(int ordinal) const;

 private:
  const Make make_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const PlacedOperation>> placed_;  // by ordinal
};

/// An operation on the CPU, and on devices; `on_devices` is null if it has no form for them.
///
/// An operand of `operation` is an array if the schema has a tensor for it.
struct Operator {
  std::shared_ptr<const Operation> operation;
  std::shared_ptr<const DeviceOperation> on_devices;
};

}  // namespace kernelcore::torch

/// Runs `op` on the stack of a boxed call: owns the inputs, leaves the results.
///
/// It runs in the current stream of the first CUDA tensor's device, else on the CPU. Operands and
/// results on a device belong to torch's allocator, in the order of that stream: what is freed
/// while the kernel is queued is reused behind it. Nothing waits, so a graph may capture it.
///
/// Boxed kernels get no context, so each operator registers a thunk that adds the last argument.
/// Throws a C++ exception, which torch turns into a Python one.
extern "C" void kernelcore_torch_boxed(kernelcore::torch::StableIValue* stack, uint64_t inputs,
                                       uint64_t outputs, const kernelcore::torch::Operator* op);
