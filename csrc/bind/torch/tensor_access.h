// Tensors inside the Python objects of torch, for functions of libtorch.
#pragma once

#include <nanobind/nanobind.h>

#include "dlpack.h"
#include "torch/tensor.h"

namespace kernelcore::bind {

/// How the tensor in an object of one Python type is asked without Python; nothing by default.
class TensorAccess {
 public:
  TensorAccess() = default;

  /// Of the type of `object`, which has the exchange API `api`. Valid for torch's own types only:
  /// what another type says of itself may be anything.
  static TensorAccess of(PyObject* object, const DLPackExchangeAPI& api);

  bool is_valid() const { return functions_ != nullptr; }

  /// Describes the memory of the tensor in `object`; false where torch has to say why it cannot.
  bool describe(PyObject* object, DLTensor& out) const {
    return functions_->describe(tensor_in(object), out);
  }

  /// Whether the elements in memory still have to be negated.
  bool is_negated(PyObject* object) const { return functions_->is_negated(tensor_in(object)); }

  /// Tells autograd of a write; false where that was left undone.
  bool note_written(PyObject* object) const { return functions_->note_written(tensor_in(object)); }

 private:
  /// The tensor, which torch keeps right behind the head of the object.
  static const at::Tensor& tensor_in(PyObject* object) {
    return *reinterpret_cast<const at::Tensor*>(object + 1);
  }

  const torch::TensorFunctions* functions_ = nullptr;
};

}  // namespace kernelcore::bind
