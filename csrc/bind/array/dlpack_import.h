// What DLPack says of memory: its dtypes, its tensors, and the exchange API of Python types.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"
#include "dlpack.h"

namespace kernelcore::bind {

/// The DType of a DLPack dtype, or -1.
int dtype_from_dlpack(DLDataType dtype);

/// The DLPack dtype of `dtype`.
DLDataType dtype_to_dlpack(DType dtype);

/// Fills `info` from `tensor`, whose memory someone else keeps alive; false, with BufferError set,
/// where shape, strides and address describe no memory.
bool read_dl_tensor(const DLTensor& tensor, ArrayInfo& info);

/// As `read_dl_tensor`, of a tensor that says whether its memory may be written.
bool read_managed(const DLManagedTensorVersioned& managed, ArrayInfo& info);

/// The exchange API that `type` offers, or null; sets no Python error.
const DLPackExchangeAPI* exchange_api_of(PyObject* type);

/// What `object` exports by `__dlpack__` for use in `stream`, or `object` if it is a capsule;
/// invalid with an error set. `info` gets the device. Where that is no place for `stream`, 0 for
/// the host, nothing is exported and no error set.
nanobind::object export_capsule(PyObject* object, uintptr_t stream, ArrayInfo& info);

/// Fills `info` from a capsule that `export_capsule` gave; false with an error set.
bool read_capsule(PyObject* capsule, ArrayInfo& info);

/// Takes the memory out of a capsule that `read_capsule` has read: what keeps it in place.
Keeper take_capsule(PyObject* capsule);

/// What keeps the memory of `managed` in place until its deleter is called.
template <class Managed>
Keeper keeper_of(Managed* managed) {
  return {managed, [](void* held) {
            auto* tensor = static_cast<Managed*>(held);
            if (tensor->deleter != nullptr) tensor->deleter(tensor);
          }};
}

}  // namespace kernelcore::bind
