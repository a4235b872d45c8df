// Reads DLPack tensors and capsules, and finds the exchange API of Python types.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"
#include "dlpack.h"

namespace kernelcore::bind {

/// The DType of a DLPack dtype, or -1.
int dtype_from_dlpack(DLDataType dtype);

/// The DLPack dtype of `dtype`.
DLDataType dtype_to_dlpack(DType dtype);

/// Fills `info` from `tensor`, whose memory the caller keeps alive; false, with BufferError set, if
/// shape, strides and address are malformed.
bool read_dl_tensor(const DLTensor& tensor, ArrayInfo& info);

/// Whether `tensor` is the memory `info`, which kernels can use; false where strides are left out.
bool is_memory_of(const DLTensor& tensor, const ArrayInfo& info);

/// As `read_dl_tensor`, with the read-only flag of DLPack 1.
bool read_managed(const DLManagedTensorVersioned& managed, ArrayInfo& info);

/// The exchange API that `type` offers, or null; sets no Python error.
const DLPackExchangeAPI* exchange_api_of(PyObject* type);

/// The capsule of `object.__dlpack__` for use in `stream`, 0 for the host, or `object` itself if it
/// is one; invalid with an error set. `info` gets the device. Invalid without an error if the
/// memory cannot be used in `stream`.
nanobind::object export_capsule(PyObject* object, uintptr_t stream, ArrayInfo& info);

/// Fills `info` from a capsule that `export_capsule` gave; false with an error set.
bool read_capsule(PyObject* capsule, ArrayInfo& info);

/// Takes ownership of the memory of a capsule that `read_capsule` has read.
Keeper take_capsule(PyObject* capsule);

/// Owns `managed`, whose deleter is called at the end.
template <class Managed>
Keeper keeper_of(Managed* managed) {
  return {managed, [](void* held) {
            auto* tensor = static_cast<Managed*>(held);
            if (tensor->deleter != nullptr) tensor->deleter(tensor);
          }};
}

}  // namespace kernelcore::bind
