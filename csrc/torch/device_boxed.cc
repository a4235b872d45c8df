#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/memory/copy.h"
#include "cuda/kernel.h"
#include "cuda/memory.h"
#include "torch/boxed.h"
#include "torch/stack.h"

namespace kernelcore::torch {
namespace {

std::string text(int ordinal) {
  return "cuda:" + std::to_string(ordinal);
}

/// Turns torch's gradients off.
class WithoutGradients {
 public:
  WithoutGradients() : was_enabled_(shim().grad_mode_is_enabled()) { shim().set_grad_mode(false); }
  ~WithoutGradients() { shim().set_grad_mode(was_enabled_); }
  WithoutGradients(const WithoutGradients&) = delete;
  WithoutGradients& operator=(const WithoutGradients&) = delete;

 private:
  bool was_enabled_;
};

int first_device(StableIValue* stack, const std::vector<bool>& is_tensor) {
  const Shim& s = shim();
  for (size_t i = 0; i < is_tensor.size(); ++i) {
    auto tensor = reinterpret_cast<TensorHandle>(stack[i]);
    int32_t type = 0;
    int32_t index = 0;
    if (is_tensor[i] && s.get_device_type(tensor, &type) == 0 && type == s.cuda &&
        s.get_device_index(tensor, &index) == 0) {
      return index;
    }
  }
  throw Error(ErrorKind::kInternal, "torch: no tensor of the call is on a CUDA device");
}

std::shared_ptr<cuda::Stream> current_stream(int ordinal) {
  const Shim& s = shim();
  void* handle = nullptr;
  if (s.current_cuda_stream == nullptr || s.current_cuda_stream(ordinal, &handle) != 0) {
    throw Error(ErrorKind::kDevice, "torch: expected a current stream of " + text(ordinal) +
                                        ", found none\n  help: use a torch with CUDA");
  }
  return cuda::Stream::wrap(cuda::Device::get(ordinal), reinterpret_cast<uintptr_t>(handle));
}

/// One call: what it was given, what it makes, and what is freed at its end.
class DeviceCall {
 public:
  DeviceCall(const PlacedOperation& placed, int ordinal)
      : op_(*placed.operation),
        kernel_(*placed.kernel),
        place_{shim().cuda, ordinal},
        stream_(current_stream(ordinal)),
        operands_(op_.operands.size()),
        results_(op_.results.size()),
        made_(op_.visible_count),
        scratch_(op_.operands.size() + op_.results.size()) {}

  void read(size_t index, StableIValue& entry) {
    ArrayView& view = operands_[index];
    if (!op_.operands[index].is_array) {
      read_number(op_, index, entry, view);
      return;
    }
    Place found = read_tensor(op_, index, reinterpret_cast<TensorHandle>(entry), view);
    if (op_.parameter_of(index) == Operation::kNoParameter) return;  // Its shape is all it gives.
    if (found.device_type == shim().cpu && is_value(index)) {
      send(index, view);
    } else if (found.device_type != place_.device_type ||
               found.device_index != place_.device_index) {
      bool is_cuda = found.device_type == shim().cuda;
      refuse_operand(op_, index, "a tensor on " + text(place_.device_index),
                     is_cuda ? "one on " + text(found.device_index) : "one elsewhere",
                     "move it with .to('" + text(place_.device_index) + "')");
    }
  }

  void run(StableIValue* stack) {
    for (size_t i = 0; i < op_.results.size(); ++i) {
      op_.shape_result(i, operands_.data(), results_[i]);
      TensorHandle tensor = allocate(op_, op_.results[i].dtype, place_, results_[i]);
      (i < op_.visible_count ? made_ : scratch_).add(tensor);
      copy_operand(i, stack, tensor);
    }
    Launch launch = op_.launch_for(operands_.data(), results_.data());
    kernel_.raise_failure(*stream_);
    cuda::DeviceBackend backend(kernel_, *stream_);
    run_functional(op_.descriptor, operands_.data(), results_.data(), launch, backend);
  }

  void release_to(StableIValue* stack) { made_.release_to(stack); }

 private:
  /// Whether an operand is one element, as numbers are that Python passes.
  bool is_value(size_t index) const {
    return op_.descriptor.slots[op_.parameter_of(index)].outer_ndim() == 0;
  }

  /// Puts the elements of `view`, in memory of the host, where the kernel reads them.
  void send(size_t index, ArrayView& view) {
    DType dtype = op_.operands[index].dtype;
    ArrayView target = view;
    target.set_contiguous();
    std::vector<std::byte> bytes(view.size_bytes());
    copy_to_contiguous(bytes.data(), view);
    scratch_.add(allocate(op_, dtype, place_, target));
    cuda::write_now(*stream_, target.data, bytes.data(), bytes.size());
    view = target;
  }

  /// Copies the operand that result `index` starts as. Torch does it where the driver would need a
  /// call per row; the run finds that it is done.
  void copy_operand(size_t index, StableIValue* stack, TensorHandle result) {
    for (const ParameterSlot& slot : op_.descriptor.slots) {
      if (!slot.is_written() || slot.operand < 0 || slot.result != static_cast<int>(index))
        continue;
      ArrayView& operand = operands_[static_cast<size_t>(slot.operand)];
      if (operand.is_contiguous()) return;
      WithoutGradients off;
      if (shim().copy(result, reinterpret_cast<TensorHandle>(stack[slot.operand]), 1) != 0) {
        throw Error(ErrorKind::kDevice, op_.descriptor.name + "(): torch could not copy argument " +
                                            std::to_string(slot.operand));
      }
      operand = results_[index];
      return;
    }
  }

  const Operation& op_;
  cuda::DeviceKernel& kernel_;
  const Place place_;
  const std::shared_ptr<cuda::Stream> stream_;
  ViewBuffer operands_;
  ViewBuffer results_;
  OwnedTensors made_;
  OwnedTensors scratch_;
};

}  // namespace

const PlacedOperation& DeviceOperation::on(int ordinal) const {
  auto index = static_cast<size_t>(ordinal);
  {
    std::lock_guard lock(mutex_);
    if (index < placed_.size() && placed_[index] != nullptr) return *placed_[index];
  }
  // Python makes it, and waits for others: no lock may be held.
  auto made = std::make_unique<const PlacedOperation>(make_(ordinal));
  std::lock_guard lock(mutex_);
  if (placed_.size() <= index) placed_.resize(index + 1);
  if (placed_[index] == nullptr) placed_[index] = std::move(made);
  return *placed_[index];
}

void DeviceOperation::prepare(int ordinal) const {
  on(ordinal).kernel->raise_failure(*current_stream(ordinal));
}

namespace {

void run_boxed(StableIValue* stack, const DeviceOperation& operation) {
  const std::vector<bool>& is_tensor = operation.is_tensor();
  OwnedTensors inputs(is_tensor.size());
  for (size_t i = 0; i < is_tensor.size(); ++i) {
    if (is_tensor[i]) inputs.add(reinterpret_cast<TensorHandle>(stack[i]));
  }
  int ordinal = first_device(stack, is_tensor);
  DeviceCall call(operation.on(ordinal), ordinal);
  for (size_t i = 0; i < is_tensor.size(); ++i) call.read(i, stack[i]);
  call.run(stack);
  inputs.clear();
  call.release_to(stack);
}

}  // namespace
}  // namespace kernelcore::torch

extern "C" void kernelcore_torch_device_boxed(kernelcore::torch::StableIValue* stack, uint64_t,
                                              uint64_t,
                                              const kernelcore::torch::DeviceOperation* operation) {
  kernelcore::torch::run_boxed(stack, *operation);
}
