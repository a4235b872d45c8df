// The tensors and numbers on the stack of a boxed call.
#pragma once

#include <string>

#include "core/error.h"
#include "core/memory/small_buffer.h"
#include "core/run/operation.h"
#include "torch/shim.h"

namespace kernelcore::torch {

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

/// Where a tensor is, in torch's numbers.
struct Place {
  int32_t device_type;
  int32_t device_index;
};

/// A tensor with strides and memory, as torch describes it.
struct DenseTensor {
  Place place;
  int32_t dtype;  // in torch's numbers
  int64_t ndim;
  const int64_t* shape;
  const int64_t* strides;  // in elements
  void* data;

  /// Whether `tensor` is one.
  bool read(TensorHandle tensor);

  /// It as memory, where it has `view_ndim` dimensions and elements of `element`.
  ArrayView view(int view_ndim, DType element) const;
};

/// Throws what is wrong with operand `index`.
[[noreturn]] void refuse_operand(const Operation& op, size_t index, const std::string& expected,
                                 const std::string& found,
                                 const std::string& help = "convert the tensor before the call");

/// Reads operand `index`, and tells where it is; throws where its type is another one.
Place read_tensor(const Operation& op, size_t index, TensorHandle tensor, ArrayView& view);

/// Rewrites a number on the stack as the bytes of its dtype, and makes a view of them.
void read_number(const Operation& op, size_t index, StableIValue& entry, ArrayView& view);

/// Makes the tensors among the operands, which a call owns, those of `owned`.
void own_operands(const Operation& op, const StableIValue* stack, OwnedTensors& owned);

/// Reads all operands, which are in CPU memory; throws where one is not.
void read_host_operands(const Operation& op, StableIValue* stack, ArrayView* views);

/// A new tensor of shape and strides `view`, which gets its data.
TensorHandle allocate(const Operation& op, DType dtype, Place place, ArrayView& view);

}  // namespace kernelcore::torch
