#include "bind/array/dlpack_import.h"

#include <array>

#include "bind/array/builtin_call.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

constexpr const char* kVersioned = "dltensor_versioned";
constexpr const char* kLegacy = "dltensor";

/// Calls `object.__dlpack__` for use in `stream`, 0 for host memory; without `max_version` for
/// exporters older than DLPack 1.0.
nb::object call_export(PyObject* object, uintptr_t stream) {
  nb::object method = nb::steal(PyObject_GetAttrString(object, "__dlpack__"));
  if (!method.is_valid()) return {};
  nb::object arguments = nb::steal(PyTuple_New(0));
  nb::dict keywords;
  if (stream != 0) keywords["stream"] = stream;
  keywords["max_version"] = nb::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  nb::object capsule = nb::steal(PyObject_Call(method.ptr(), arguments.ptr(), keywords.ptr()));
  if (capsule.is_valid() || PyErr_ExceptionMatches(PyExc_TypeError) == 0) return capsule;
  PyErr_Clear();
  nb::del(keywords["max_version"]);
  return nb::steal(PyObject_Call(method.ptr(), arguments.ptr(), keywords.ptr()));
}

/// Stores the device that `object.__dlpack_device__()` returns, or the CPU if the object has no
/// such method. False with an error set.
bool read_device(PyObject* object, DLDevice& device) {
  device = {kDLCPU, 0};
  nb::object method = nb::steal(PyObject_GetAttrString(object, "__dlpack_device__"));
  if (!method.is_valid()) {
    drop_exception();
    return true;
  }
  nb::object pair = nb::steal(PyObject_CallObject(method.ptr(), nullptr));
  nb::object kind = pair.is_valid() ? nb::steal(PySequence_GetItem(pair.ptr(), 0)) : nb::object();
  nb::object id = kind.is_valid() ? nb::steal(PySequence_GetItem(pair.ptr(), 1)) : nb::object();
  if (!id.is_valid()) return false;
  long type = PyLong_AsLong(kind.ptr());
  // Some exporters return None as the index of the CPU.
  long index = id.is_none() ? 0 : PyLong_AsLong(id.ptr());
  if (PyErr_Occurred() != nullptr) return false;
  device = {static_cast<DLDeviceType>(type), static_cast<int32_t>(index)};
  return true;
}

constexpr DLDataType dlpack_of(DType dtype) {
  constexpr uint8_t kCodes[] = {kDLBool, kDLInt, kDLUInt, kDLFloat};  // by ScalarKind
  auto bits = static_cast<uint8_t>(8 * size_bytes(dtype));
  if (dtype == DType::kBFloat16) return {kDLBfloat, bits, 1};
  return {kCodes[static_cast<size_t>(traits_of(dtype).kind)], bits, 1};
}

constexpr uint32_t word_of(DLDataType dtype) {
  return uint32_t{dtype.code} << 24 | uint32_t{dtype.bits} << 16 | dtype.lanes;
}

// By DType.
constexpr auto kWords = [] {
  std::array<uint32_t, kDTypeCount> words{};
  for (size_t i = 0; i < words.size(); ++i) words[i] = word_of(dlpack_of(static_cast<DType>(i)));
  return words;
}();

}  // namespace

const DLPackExchangeAPI* exchange_api_of(PyObject* type) {
  nb::object capsule = nb::steal(PyObject_GetAttrString(type, "__dlpack_c_exchange_api__"));
  const DLPackExchangeAPI* api = nullptr;
  if (capsule.is_valid()) {
    api = static_cast<const DLPackExchangeAPI*>(
        PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  }
  if (api == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  bool usable = api->header.version.major == DLPACK_MAJOR_VERSION &&
                api->dltensor_from_py_object_no_sync != nullptr &&
                api->managed_tensor_from_py_object_no_sync != nullptr;
  return usable ? api : nullptr;
}

int dtype_from_dlpack(DLDataType dtype) {
  for (size_t i = 0; i < kWords.size(); ++i) {
    if (kWords[i] == word_of(dtype)) return static_cast<int>(i);
  }
  return -1;
}

DLDataType dtype_to_dlpack(DType dtype) {
  return dlpack_of(dtype);
}

bool read_dl_tensor(const DLTensor& tensor, ArrayInfo& info) {
  int ndim = tensor.ndim;
  if (ndim < 0 || ndim > kMaxArrayDims || (ndim > 0 && tensor.shape == nullptr)) {
    PyErr_Format(PyExc_BufferError, "a DLPack tensor of %d dimensions%s", ndim,
                 ndim > kMaxArrayDims ? ", more than arrays have" : " without a shape");
    return false;
  }
  info.view.ndim = ndim;
  info.dtype = dtype_from_dlpack(tensor.dtype);
  info.view.item_bytes = int64_t{tensor.dtype.bits} * tensor.dtype.lanes / 8;
  info.device = tensor.device;
  info.is_read_only = false;
  info.has_lazy_sign = false;
  for (int k = 0; k < ndim; ++k) info.view.shape[k] = tensor.shape[k];
  uintptr_t address = 0;
  bool is_sound = has_countable_bytes(info.view) &&
                  !__builtin_add_overflow(reinterpret_cast<uintptr_t>(tensor.data),
                                          tensor.byte_offset, &address);
  bool has_strides = is_sound && tensor.strides != nullptr && info.view.numel() != 0;
  if (is_sound && !has_strides) info.view.set_contiguous();
  for (int k = 0; has_strides && k < ndim; ++k) {
    is_sound &= !__builtin_mul_overflow(tensor.strides[k], info.view.item_bytes,
                                        &info.view.stride_bytes[k]);
  }
  info.view.data = tensor.data == nullptr ? nullptr : reinterpret_cast<void*>(address);
  if (is_sound && has_addresses(info.view)) return true;
  PyErr_SetString(PyExc_BufferError, "a DLPack tensor whose shape and strides describe no memory");
  return false;
}

bool is_memory_of(const DLTensor& tensor, const ArrayInfo& info) {
  const ArrayView& view = info.view;
  DLDataType dtype = dtype_to_dlpack(static_cast<DType>(info.dtype));
  bool is_same = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset ==
                     reinterpret_cast<uintptr_t>(view.data) &&
                 tensor.device.device_type == info.device.device_type &&
                 tensor.device.device_id == info.device.device_id &&
                 tensor.dtype.code == dtype.code && tensor.dtype.bits == dtype.bits &&
                 tensor.dtype.lanes == dtype.lanes && tensor.ndim == view.ndim &&
                 tensor.strides != nullptr;
  for (int k = 0; is_same && k < view.ndim; ++k) {
    int64_t stride_bytes = 0;
    is_same = tensor.shape[k] == view.shape[k] &&
              !__builtin_mul_overflow(tensor.strides[k], view.item_bytes, &stride_bytes) &&
              stride_bytes == view.stride_bytes[k];
  }
  return is_same;
}

bool read_managed(const DLManagedTensorVersioned& managed, ArrayInfo& info) {
  if (!read_dl_tensor(managed.dl_tensor, info)) return false;
  info.is_read_only = (managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  return true;
}

nb::object export_capsule(PyObject* object, uintptr_t stream, ArrayInfo& info) {
  if (PyCapsule_CheckExact(object) != 0) {
    info.device = {kDLCPU, 0};
    return nb::borrow(object);
  }
  if (!read_device(object, info.device)) return {};
  if (info.is_on_host()) return call_export(object, 0);
  return info.is_on_cuda() && stream != 0 ? call_export(object, stream) : nb::object();
}

bool read_capsule(PyObject* capsule, ArrayInfo& info) {
  if (PyCapsule_IsValid(capsule, kVersioned) != 0) {
    auto* managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersioned));
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
      PyErr_Format(PyExc_BufferError, "DLPack version %u is not supported",
                   static_cast<unsigned>(managed->version.major));
      return false;
    }
    return read_managed(*managed, info);
  }
  if (PyCapsule_IsValid(capsule, kLegacy) == 0) {
    PyErr_SetString(PyExc_BufferError, "a capsule that holds no DLPack tensor, or no longer");
    return false;
  }
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kLegacy));
  return read_dl_tensor(managed->dl_tensor, info);
}

Keeper take_capsule(PyObject* capsule) {
  // The new name marks the capsule as consumed: its destructor does not call the deleter.
  if (PyCapsule_IsValid(capsule, kVersioned) != 0) {
    void* managed = PyCapsule_GetPointer(capsule, kVersioned);
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    return keeper_of(static_cast<DLManagedTensorVersioned*>(managed));
  }
  void* managed = PyCapsule_GetPointer(capsule, kLegacy);
  PyCapsule_SetName(capsule, "used_dltensor");
  return keeper_of(static_cast<DLManagedTensor*>(managed));
}

}  // namespace kernelcore::bind
