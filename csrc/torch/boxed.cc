#include "torch/boxed.h"

#include <bit>
#include <string>

#include "core/error.h"
#include "core/functional.h"
#include "core/pool.h"
#include "core/scalar.h"
#include "core/small_buffer.h"

namespace kernelcore::torch {
namespace {

/// Tensors that this call owns; they are freed unless released.
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

Error operand_error(const Operation& op, size_t index, const std::string& problem,
                    const std::string& help) {
  size_t parameter = op.parameter_of(index);
  if (parameter != Operation::kNoParameter) {
    return op.signature.argument_error(parameter, problem, help);
  }
  return op.signature.launch_error("argument #" + std::to_string(index) + ": " + problem, help);
}

[[noreturn]] void fail(const Operation& op, size_t index, const std::string& expected,
                       const std::string& found) {
  throw operand_error(op, index, "expected " + expected + ", found " + found,
                      "convert the tensor before the call");
}

std::string dtype_text(int32_t dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (shim().dtypes[i] == dtype) return name_of(static_cast<DType>(i));
  }
  return "another dtype";
}

void read_tensor(const Operation& op, size_t index, TensorHandle tensor, ArrayView& view) {
  const Shim& s = shim();
  const OperandSpec& spec = op.operands[index];
  int32_t dtype = 0;
  int32_t device = 0;
  int64_t ndim = 0;
  int64_t* sizes = nullptr;
  int64_t* strides = nullptr;
  if (s.get_dtype(tensor, &dtype) != 0 || s.get_device_type(tensor, &device) != 0 ||
      s.get_dim(tensor, &ndim) != 0 || s.get_sizes(tensor, &sizes) != 0 ||
      s.get_strides(tensor, &strides) != 0 || s.get_data_ptr(tensor, &view.data) != 0) {
    fail(op, index, "a dense tensor", "one without strides or memory");
  }
  if (dtype != s.dtypes[static_cast<size_t>(spec.dtype)] || ndim != spec.ndim) {
    fail(op, index, "array of " + describe_array(name_of(spec.dtype), spec.ndim),
         describe_array(dtype_text(dtype), ndim));
  }
  if (device != s.cpu) fail(op, index, "a tensor in CPU memory", "one on another device");
  view.ndim = spec.ndim;
  auto item_bytes = static_cast<int64_t>(size_bytes(spec.dtype));
  for (int k = 0; k < view.ndim; ++k) {
    view.shape[k] = sizes[k];
    view.stride_bytes[k] = strides[k] * item_bytes;
  }
  size_t parameter = op.parameter_of(index);
  if (parameter != Operation::kNoParameter) op.signature.check_shape(parameter, view);
  if (view.data == nullptr && view.numel() != 0) {
    fail(op, index, "a tensor with memory", "one without");
  }
}

/// Rewrites a scalar slot of the stack as the bytes of its dtype; returns where they are.
void* convert_scalar(const Operation& op, size_t index, StableIValue& slot) {
  DType dtype = op.operands[index].dtype;
  switch (traits_of(dtype).kind) {
    case ScalarKind::kFloat: {
      store_float(dtype, std::bit_cast<double>(slot), &slot);
      break;
    }
    case ScalarKind::kInt:
    case ScalarKind::kUInt: {
      auto value = static_cast<int64_t>(slot);
      if (holds(dtype, value)) break;
      bool is_signed = traits_of(dtype).kind == ScalarKind::kInt;
      fail(op, index, std::string(is_signed ? "an " : "a ") + name_of(dtype) + " value",
           std::to_string(value) + ", which is out of its range");
    }
    case ScalarKind::kBool:
      // A bool sits in the low byte, which is the first one here; keep it 0 or 1.
      store_integer(dtype, (slot & 0xff) != 0 ? 1 : 0, &slot);
      break;
  }
  return &slot;
}

void allocate_results(const Operation& op, const ArrayView* operands, ArrayView* results,
                      OwnedTensors& owned) {
  const Shim& s = shim();
  for (size_t i = 0; i < op.visible_count; ++i) {
    ArrayView& view = results[i];
    op.shape_result(i, operands, view);
    auto item_bytes = static_cast<int64_t>(size_bytes(op.results[i].dtype));
    int64_t strides[kMaxArrayDims];
    for (int k = 0; k < view.ndim; ++k) strides[k] = view.stride_bytes[k] / item_bytes;
    TensorHandle tensor = nullptr;
    int32_t dtype = s.dtypes[static_cast<size_t>(op.results[i].dtype)];
    if (s.empty_strided(view.ndim, view.shape, strides, dtype, s.cpu, 0, &tensor) != 0) {
      throw Error(ErrorKind::kMemory,
                  op.signature.name + "(): no memory for result " + std::to_string(i));
    }
    owned.add(tensor);
    s.get_data_ptr(tensor, &view.data);
  }
}

void run_boxed(StableIValue* stack, const Operation& op) {
  size_t operand_count = op.operands.size();
  OwnedTensors inputs(operand_count);
  for (size_t i = 0; i < operand_count; ++i) {
    if (op.operands[i].is_array) inputs.add(reinterpret_cast<TensorHandle>(stack[i]));
  }
  ViewBuffer operands(operand_count);
  for (size_t i = 0; i < operand_count; ++i) {
    if (op.operands[i].is_array) {
      read_tensor(op, i, reinterpret_cast<TensorHandle>(stack[i]), operands[i]);
    } else {
      operands[i].ndim = 0;
      operands[i].data = convert_scalar(op, i, stack[i]);
    }
  }
  ViewBuffer results(op.results.size());
  OwnedTensors outputs(op.visible_count);
  allocate_results(op, operands.data(), results.data(), outputs);
  HiddenResults hidden(op, operands.data(), results.data());
  Launch launch = op.launch_for(operands.data(), results.data());
  run_functional(op.signature, operands.data(), results.data(), launch, Pool::instance());
  inputs.clear();
  outputs.release_to(stack);
}

}  // namespace
}  // namespace kernelcore::torch

extern "C" void kernelcore_torch_boxed(kernelcore::torch::StableIValue* stack, uint64_t, uint64_t,
                                       const kernelcore::torch::Operation* operation) {
  kernelcore::torch::run_boxed(stack, *operation);
}
