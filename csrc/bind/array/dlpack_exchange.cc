#include "bind/array/dlpack_exchange.h"

#include <algorithm>
#include <new>

#include "bind/array/array_memory.h"
#include "bind/array/dlpack_export.h"
#include "bind/array/dlpack_import.h"
#include "bind/errors.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

/// Zero, or -1 with a Python error set.
template <class Function>
int succeeds(Function&& function) noexcept {
  return guarded(
      [&] {
        function();
        return 0;
      },
      -1);
}

int export_object(void* object, DLManagedTensorVersioned** out) {
  return succeeds([&] {
    const ArrayMemory* memory = array_memory_of(static_cast<PyObject*>(object));
    if (memory == nullptr) {
      PyErr_SetString(PyExc_TypeError, "an array that is not initialized");
      throw nb::python_error();
    }
    // Whoever asks is told that the legacy default stream is behind all that uses the memory.
    if (memory->allocation != nullptr && memory->info.is_on_cuda()) {
      memory->allocation->note_export();
      auto& device = cuda::Device::get(memory->info.device.device_id);
      memory->allocation->delay(*cuda::Stream::legacy(device));
    }
    *out = export_versioned(*memory);
  });
}

int import_tensor(DLManagedTensorVersioned* tensor, void** out) {
  return succeeds([&] {
    // What is stolen is let go even if it cannot be used.
    Keeper keeper = keeper_of(tensor);
    ArrayMemory memory{};
    if (!read_dl_tensor(tensor->dl_tensor, memory.info)) throw nb::python_error();
    memory.info.is_read_only = (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    memory.keeper = std::move(keeper);
    memory.storage = storage_of(memory);
    *out = nb::cast(std::move(memory)).release().ptr();
  });
}

int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
             void (*set_error)(void*, const char*, const char*)) {
  ArrayMemory memory{};
  ArrayInfo& info = memory.info;
  info.dtype = dtype_from_dlpack(prototype->dtype);
  info.device = prototype->device;
  info.view.ndim = prototype->ndim;
  bool is_known = info.dtype >= 0 && info.is_on_host() && info.view.ndim >= 0 &&
                  info.view.ndim <= kMaxArrayDims;
  if (!is_known) {
    set_error(context, "BufferError", "kernelcore has no such arrays");
    return -1;
  }
  info.item_bytes = static_cast<int64_t>(size_bytes(static_cast<DType>(info.dtype)));
  std::copy_n(prototype->shape, info.view.ndim, info.view.shape);
  try {
    memory.keeper = take_own_memory(info);
    *out = export_versioned(memory);
    return 0;
  } catch (const std::bad_alloc&) {
    set_error(context, "MemoryError", "kernelcore has no memory for the array");
    return -1;
  }
}

int current_stream(DLDeviceType device, int32_t, void** out) {
  *out = nullptr;
  if (device == kDLCPU || device == kDLCUDAHost || device == kDLCUDA) return 0;
  PyErr_SetString(PyExc_BufferError, "data arrays are in memory of the CPU or of a GPU");
  return -1;
}

}  // namespace

void bind_dlpack_exchange(nb::handle memory_type) {
  static const DLPackExchangeAPI api{
      .header = {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, nullptr},
      .managed_tensor_allocator = allocate,
      .managed_tensor_from_py_object_no_sync = export_object,
      .managed_tensor_to_py_object_no_sync = import_tensor,
      // A tensor that is lent has nowhere to keep its strides, which DLPack counts in elements.
      .dltensor_from_py_object_no_sync = nullptr,
      .current_work_stream = current_stream,
  };
  memory_type.attr("__dlpack_c_exchange_api__") = nb::capsule(&api, "dlpack_exchange_api");
}

}  // namespace kernelcore::bind
