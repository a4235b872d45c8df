// torch calls a "boxed" kernel with its arguments on a stack, on which it leaves its results.
#include "torch/boxed.h"

#include <bit>
#include <string>

#include "core/error.h"
#include "core/memory/array_view.h"
#include "core/scalar.h"
#include "cuda/memory.h"
#include "torch/threads.h"

namespace kernelcore::torch {
namespace {

/// Where a tensor is, in torch's numbers.
struct Place {
  int32_t device_type;
  int32_t device_index;
  bool operator==(const Place&) const = default;
};

std::string text_of(Place place) {
  return place.device_type == shim().cuda  ? "cuda:" + std::to_string(place.device_index)
         : place.device_type == shim().cpu ? "cpu"
                                           : "another device";
}

/// Tensors that a call owns; they are freed unless released.
class OwnedTensors {
 public:
  explicit OwnedTensors(size_t capacity) : handles_(capacity) {}
  ~OwnedTensors() { clear(); }
  OwnedTensors(const OwnedTensors&) = delete;
  OwnedTensors& operator=(const OwnedTensors&) = delete;

  void add(TensorHandle handle) { handles_[count_++] = handle; }
  void clear() {
    while (count_ > 0) shim().delete_tensor(handles_[--count_]);
  }
  void release_to(StableIValue* stack) {
    for (size_t i = 0; i < count_; ++i) stack[i] = reinterpret_cast<StableIValue>(handles_[i]);
    count_ = 0;
  }

 private:
  SmallBuffer<TensorHandle, 16> handles_;
  size_t count_ = 0;
};

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

/// The name of a dtype that has torch's number `dtype`.
std::string dtype_text(int32_t dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (shim().dtypes[i] == dtype) return name_of(static_cast<DType>(i));
  }
  return "another dtype";
}

/// One call: what it was given, what it makes, and what is freed at its end.
class Call {
 public:
  Call(const Operator& op, StableIValue* stack)
      : stack_(stack),
        inputs_(op.operation->operands.size()),
        place_(take_over(op)),
        placed_(place_.device_type == shim().cuda ? &op.on_devices->on(place_.device_index)
                                                  : nullptr),
        op_(placed_ != nullptr ? *placed_->operation : *op.operation),
        stream_(placed_ != nullptr ? current_stream(place_.device_index) : nullptr),
        operands_(op_.operands.size()),
        results_(op_.results.size()),
        made_(op_.visible_count),
        scratch_(op_.operands.size() + op_.results.size()) {}

  void run() {
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      op_.operands[i].is_array ? read_tensor(i, operands_[i]) : read_number(i, operands_[i]);
    }
    size_t count = placed_ != nullptr ? op_.results.size() : op_.visible_count;
    for (size_t i = 0; i < count; ++i) {
      op_.shape_result(i, operands_.data(), results_[i]);
      TensorHandle tensor = allocate(op_.results[i].dtype, results_[i]);
      (i < op_.visible_count ? made_ : scratch_).add(tensor);
      if (placed_ != nullptr) copy_operand(i, tensor);
    }
    if (placed_ != nullptr) {
      placed_->run(operands_.data(), results_.data(), *stream_);
    } else {
      OperationRun(op_, operands_.data(), results_.data()).run(operator_threads());
    }
    inputs_.clear();
    made_.release_to(stack_);
  }

 private:
  TensorHandle tensor_at(size_t index) const {
    return reinterpret_cast<TensorHandle>(stack_[index]);
  }

  /// Owns the tensors on the stack, and finds the place of the call.
  Place take_over(const Operator& op) {
    const Shim& s = shim();
    Place place{s.cpu, 0};
    for (size_t i = op.operation->operands.size(); i-- > 0;) {
      if (!op.operation->operands[i].is_array) continue;
      inputs_.add(tensor_at(i));
      int32_t type = 0;
      int32_t index = 0;
      if (op.on_devices != nullptr && s.get_device_type(tensor_at(i), &type) == 0 &&
          type == s.cuda && s.get_device_index(tensor_at(i), &index) == 0) {
        place = {type, index};
      }
    }
    return place;
  }

  [[noreturn]] void refuse(size_t index, const std::string& expected, const std::string& found,
                           const std::string& help = "convert the tensor before the call") const {
    std::string problem = "expected " + expected + ", found " + found;
    size_t parameter = op_.parameter_of(index);
    if (parameter != Operation::kNoParameter) {
      throw op_.descriptor.argument_error(parameter, problem, help);
    }
    throw op_.descriptor.launch_error("argument #" + std::to_string(index) + ": " + problem, help);
  }

  /// Rewrites a number on the stack as the bytes of its dtype, and makes a view of them.
  void read_number(size_t index, ArrayView& view) {
    DType dtype = op_.operands[index].dtype;
    StableIValue& entry = stack_[index];
    view.ndim = 0;
    view.data = &entry;
    auto value = static_cast<int64_t>(entry);
    ScalarKind kind = traits_of(dtype).kind;
    if (kind == ScalarKind::kFloat) {
      store_float(dtype, std::bit_cast<double>(entry), &entry);
    } else if (kind == ScalarKind::kBool) {
      // A bool sits in the low byte, which is the first one here; keep it 0 or 1.
      store_integer(dtype, (entry & 0xff) != 0 ? 1 : 0, &entry);
    } else if (!holds(dtype, value)) {
      refuse(index, value_text(dtype), std::to_string(value) + ", which is out of its range");
    }
  }

  /// Reads the tensor of operand `index`; throws if its type or its place is another one.
  void read_tensor(size_t index, ArrayView& view) {
    const Shim& s = shim();
    const OperandSpec& spec = op_.operands[index];
    TensorHandle tensor = tensor_at(index);
    Place found{};
    int32_t dtype = 0;
    int64_t ndim = 0;
    int64_t* sizes = nullptr;
    int64_t* strides = nullptr;
    if (s.get_dtype(tensor, &dtype) != 0 || s.get_device_type(tensor, &found.device_type) != 0 ||
        s.get_device_index(tensor, &found.device_index) != 0 || s.get_dim(tensor, &ndim) != 0 ||
        s.get_sizes(tensor, &sizes) != 0 || s.get_strides(tensor, &strides) != 0 ||
        s.get_data_ptr(tensor, &view.data) != 0) {
      refuse(index, "a dense tensor", "one without strides or memory");
    }
    if (found.device_type == s.cpu) found.device_index = 0;  // It is -1 unless a user names one.
    if (dtype != s.dtypes[static_cast<size_t>(spec.dtype)] || ndim != spec.ndim) {
      refuse(index, "array of " + describe_array(name_of(spec.dtype), spec.ndim),
             describe_array(dtype_text(dtype), ndim));
    }
    view.ndim = spec.ndim;
    view.item_bytes = static_cast<int64_t>(size_bytes(spec.dtype));
    for (int k = 0; k < view.ndim; ++k) {
      view.shape[k] = sizes[k];
      view.stride_bytes[k] = strides[k] * view.item_bytes;
    }
    size_t parameter = op_.parameter_of(index);
    if (parameter != Operation::kNoParameter) op_.descriptor.check_shape(parameter, view);
    if (view.data == nullptr && view.numel() != 0) {
      refuse(index, "a tensor with memory", "one without");
    }
    if (!holds_elements(tensor, view)) {
      refuse(index, "a tensor with memory", "one whose storage ends before its last element",
             "resize the storage, or pass the part of the tensor that is left");
    }
    if (!view.is_aligned() && parameter != Operation::kNoParameter) {
      refuse(
          index,
          "array of " + describe_array(name_of(spec.dtype), spec.ndim) + " aligned to its elements",
          "a Tensor at other addresses, such as a view into packed records or bytes",
          "copy it into an array of its own");
    }
    // The shape is all that an operand gives which the kernel ignores.
    if (found == place_ || parameter == Operation::kNoParameter) return;
    bool is_value = op_.descriptor.slots[parameter].outer_ndim() == 0;
    if (found.device_type == s.cpu && is_value) return send(index, view);
    refuse(index, "a tensor on " + text_of(place_),
           found.device_type == s.cuda ? "one on " + text_of(found) : "one elsewhere",
           "move it with .to('" + text_of(place_) + "')");
  }

  /// Whether the storage of `tensor`, whose strides are not negative, reaches to the end of `view`.
  static bool holds_elements(TensorHandle tensor, const ArrayView& view) {
    int64_t size = 0;
    int64_t offset = 0;
    auto [begin, end] = view.byte_span();
    return begin == end || shim().get_storage_size(tensor, &size) != 0 ||
           shim().get_storage_offset(tensor, &offset) != 0 ||
           offset * view.item_bytes + static_cast<int64_t>(end - begin) <= size;
  }

  /// Puts the elements of `view`, in memory of the host, where the kernel reads them.
  void send(size_t index, ArrayView& view) {
    ArrayView target = view;
    target.set_contiguous();
    std::vector<std::byte> bytes(view.size_bytes());
    copy_to_contiguous(bytes.data(), view);
    scratch_.add(allocate(op_.operands[index].dtype, target));
    cuda::write_now(*stream_, target.data, bytes.data(), bytes.size());
    view = target;
  }

  /// A new tensor of shape and strides `view`, which gets its data.
  TensorHandle allocate(DType dtype, ArrayView& view) const {
    const Shim& s = shim();
    int64_t strides[kMaxArrayDims];
    for (int k = 0; k < view.ndim; ++k) strides[k] = view.stride_bytes[k] / view.item_bytes;
    TensorHandle tensor = nullptr;
    if (s.empty_strided(view.ndim, view.shape, strides, s.dtypes[static_cast<size_t>(dtype)],
                        place_.device_type, place_.device_index, &tensor) != 0) {
      throw Error(ErrorKind::kMemory,
                  op_.descriptor.name + "(): no memory for an array of shape " + shape_text(view));
    }
    s.get_data_ptr(tensor, &view.data);
    return tensor;
  }

  /// Copies the operand that result `index` starts as. Torch does it where the driver would need a
  /// call per row; the run finds that it is done.
  void copy_operand(size_t index, TensorHandle result) {
    for (const ParameterSlot& slot : op_.descriptor.slots) {
      if (!slot.is_written() || slot.operand < 0 || slot.result != static_cast<int>(index))
        continue;
      auto source = static_cast<size_t>(slot.operand);
      if (operands_[source].is_contiguous()) return;
      WithoutGradients off;
      if (shim().copy(result, tensor_at(source), 1) != 0) {
        throw Error(ErrorKind::kDevice, op_.descriptor.name + "(): torch could not copy argument " +
                                            std::to_string(source));
      }
      operands_[source] = results_[index];
      return;
    }
  }

  StableIValue* const stack_;
  OwnedTensors inputs_;
  const Place place_;
  const PlacedOperation* const placed_;  // null on the CPU
  const Operation& op_;
  const std::shared_ptr<cuda::Stream> stream_;
  ViewBuffer operands_;
  ViewBuffer results_;
  OwnedTensors made_;
  OwnedTensors scratch_;
};

}  // namespace

std::shared_ptr<cuda::Stream> current_stream(int ordinal) {
  const Shim& s = shim();
  void* handle = nullptr;
  if (s.current_cuda_stream == nullptr || s.current_cuda_stream(ordinal, &handle) != 0) {
    throw Error(ErrorKind::kDevice,
                "torch: expected a current stream of cuda:" + std::to_string(ordinal) +
                    ", found none\n  help: use a torch with CUDA");
  }
  return cuda::Stream::wrap(cuda::Device::get(ordinal), reinterpret_cast<uintptr_t>(handle));
}

void PlacedOperation::run(const ArrayView* operands, const ArrayView* results,
                          const cuda::Stream& stream) const {
  Launch launch = operation->launch_for(operands, results);
  kernel->raise_failure(stream);
  cuda::DeviceBackend backend(*kernel, stream);
  run_functional(operation->descriptor, operands, results, launch, backend);
}

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

}  // namespace kernelcore::torch

extern "C" void kernelcore_torch_boxed(kernelcore::torch::StableIValue* stack, uint64_t, uint64_t,
                                       const kernelcore::torch::Operator* op) {
  kernelcore::torch::Call(*op, stack).run();
}
