#include "torch/stack.h"

#include <bit>

#include "core/scalar.h"

namespace kernelcore::torch {
namespace {

void convert_number(const Operation& op, size_t index, StableIValue& entry) {
  DType dtype = op.operands[index].dtype;
  switch (traits_of(dtype).kind) {
    case ScalarKind::kFloat: {
      store_float(dtype, std::bit_cast<double>(entry), &entry);
      break;
    }
    case ScalarKind::kInt:
    case ScalarKind::kUInt: {
      auto value = static_cast<int64_t>(entry);
      if (holds(dtype, value)) break;
      bool is_signed = traits_of(dtype).kind == ScalarKind::kInt;
      refuse_operand(op, index, std::string(is_signed ? "an " : "a ") + name_of(dtype) + " value",
                     std::to_string(value) + ", which is out of its range");
    }
    case ScalarKind::kBool:
      // A bool sits in the low byte, which is the first one here; keep it 0 or 1.
      store_integer(dtype, (entry & 0xff) != 0 ? 1 : 0, &entry);
      break;
  }
}

/// The name of a dtype that has torch's number `dtype`.
std::string dtype_text(int32_t dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (shim().dtypes[i] == dtype) return name_of(static_cast<DType>(i));
  }
  return "another dtype";
}

}  // namespace

bool DenseTensor::read(TensorHandle tensor) {
  const Shim& s = shim();
  int64_t* sizes = nullptr;
  int64_t* steps = nullptr;
  bool is_dense = s.get_dtype(tensor, &dtype) == 0 &&
                  s.get_device_type(tensor, &place.device_type) == 0 &&
                  s.get_device_index(tensor, &place.device_index) == 0 &&
                  s.get_dim(tensor, &ndim) == 0 && s.get_sizes(tensor, &sizes) == 0 &&
                  s.get_strides(tensor, &steps) == 0 && s.get_data_ptr(tensor, &data) == 0;
  shape = sizes;
  strides = steps;
  return is_dense;
}

ArrayView DenseTensor::view(int view_ndim, DType element) const {
  ArrayView view;
  view.data = data;
  view.ndim = view_ndim;
  view.item_bytes = static_cast<int64_t>(size_bytes(element));
  for (int k = 0; k < view_ndim; ++k) {
    view.shape[k] = shape[k];
    view.stride_bytes[k] = strides[k] * view.item_bytes;
  }
  return view;
}

void refuse_operand(const Operation& op, size_t index, const std::string& expected,
                    const std::string& found, const std::string& help) {
  std::string problem = "expected " + expected + ", found " + found;
  size_t parameter = op.parameter_of(index);
  if (parameter != Operation::kNoParameter) {
    throw op.descriptor.argument_error(parameter, problem, help);
  }
  throw op.descriptor.launch_error("argument #" + std::to_string(index) + ": " + problem, help);
}

Place read_tensor(const Operation& op, size_t index, TensorHandle tensor, ArrayView& view) {
  const OperandSpec& spec = op.operands[index];
  DenseTensor found{};
  if (!found.read(tensor)) {
    refuse_operand(op, index, "a dense tensor", "one without strides or memory");
  }
  if (found.dtype != shim().dtypes[static_cast<size_t>(spec.dtype)] || found.ndim != spec.ndim) {
    refuse_operand(op, index, "array of " + describe_array(name_of(spec.dtype), spec.ndim),
                   describe_array(dtype_text(found.dtype), found.ndim));
  }
  view = found.view(spec.ndim, spec.dtype);
  size_t parameter = op.parameter_of(index);
  if (parameter != Operation::kNoParameter) op.descriptor.check_shape(parameter, view);
  if (view.data == nullptr && view.numel() != 0) {
    refuse_operand(op, index, "a tensor with memory", "one without");
  }
  return found.place;
}

void read_number(const Operation& op, size_t index, StableIValue& entry, ArrayView& view) {
  convert_number(op, index, entry);
  view.ndim = 0;
  view.data = &entry;
}

void own_operands(const Operation& op, const StableIValue* stack, OwnedTensors& owned) {
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i].is_array) owned.add(reinterpret_cast<TensorHandle>(stack[i]));
  }
}

void read_host_operands(const Operation& op, StableIValue* stack, ArrayView* views) {
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!op.operands[i].is_array) {
      read_number(op, i, stack[i], views[i]);
      continue;
    }
    Place place = read_tensor(op, i, reinterpret_cast<TensorHandle>(stack[i]), views[i]);
    if (place.device_type != shim().cpu) {
      refuse_operand(op, i, "a tensor in CPU memory", "one on another device");
    }
  }
}

TensorHandle allocate(const Operation& op, DType dtype, Place place, ArrayView& view) {
  const Shim& s = shim();
  int64_t strides[kMaxArrayDims];
  for (int k = 0; k < view.ndim; ++k) strides[k] = view.stride_bytes[k] / view.item_bytes;
  TensorHandle tensor = nullptr;
  if (s.empty_strided(view.ndim, view.shape, strides, s.dtypes[static_cast<size_t>(dtype)],
                      place.device_type, place.device_index, &tensor) != 0) {
    throw Error(ErrorKind::kMemory,
                op.descriptor.name + "(): no memory for an array of shape " + shape_text(view));
  }
  s.get_data_ptr(tensor, &view.data);
  return tensor;
}

}  // namespace kernelcore::torch
