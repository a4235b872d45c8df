// Tensors inside the Python objects of torch, for functions of libtorch.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"
#include "dlpack.h"
#include "torch/tensor.h"

namespace kernelcore::bind {

/// torch's functions for the tensors in objects of the type of `object`, which has the exchange API
/// `api`; null for all but torch's own types: what another type says of itself may be anything.
const torch::TensorFunctions* tensor_functions_of(PyObject* object, const DLPackExchangeAPI& api);

/// The tensor in an object of such a type, which torch keeps right behind the head of the object.
inline const at::Tensor& tensor_in(PyObject* object) {
  return *reinterpret_cast<const at::Tensor*>(object + 1);
}

/// Reads a tensor to `info`. The keeper holds its storage, whatever storage the tensor gets later,
/// and the lender notices where the storage is resized. False where torch has to say why there is
/// no such memory.
bool keep_storage(const torch::TensorFunctions& functions, const at::Tensor& tensor,
                  ArrayInfo& info, Keeper& keeper);

}  // namespace kernelcore::bind
