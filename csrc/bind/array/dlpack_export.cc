#include <nanobind/stl/pair.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "bind/array/array_memory.h"
#include "bind/array/dlpack_import.h"
#include "bind/errors.h"
#include "core/fork_mutex.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

// A consumer may call a deleter on any thread, without the GIL, or holding a lock that freeing the
// memory would take again: the interpreter releases the memory later.
std::mutex g_mutex;
[[maybe_unused]] const bool g_is_registered = is_free_at_fork<g_mutex>();
bool g_is_scheduled = false;

std::vector<Keeper>& released() {
  static auto* keepers = new std::vector<Keeper>();
  return *keepers;
}

int release_all(void*) {
  std::vector<Keeper> taken;
  {
    std::lock_guard lock(g_mutex);
    g_is_scheduled = false;
    taken.swap(released());
  }
  return 0;
}

void release_later(Keeper&& keeper) {
  std::lock_guard lock(g_mutex);
  released().push_back(std::move(keeper));
  // At the end of the process nothing is released.
  if (Py_IsInitialized() == 0) return;
  if (!g_is_scheduled) g_is_scheduled = Py_AddPendingCall(release_all, nullptr) == 0;
}

/// A DLPack tensor and what it points to.
template <class Managed>
struct Export {
  Managed managed{};
  Keeper keeper;
  int64_t shape[kMaxArrayDims];
  int64_t strides[kMaxArrayDims];
};

template <class Managed>
constexpr const char* kCapsuleName = nullptr;
template <>
constexpr const char* kCapsuleName<DLManagedTensor> = "dltensor";
template <>
constexpr const char* kCapsuleName<DLManagedTensorVersioned> = "dltensor_versioned";

template <class Managed>
void delete_export(Managed* managed) {
  std::unique_ptr<Export<Managed>> owned(static_cast<Export<Managed>*>(managed->manager_ctx));
  release_later(std::move(owned->keeper));
}

template <class Managed>
void delete_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kCapsuleName<Managed>) == 0) return;  // consumed
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kCapsuleName<Managed>));
  managed->deleter(managed);
}

template <class Managed>
std::unique_ptr<Export<Managed>> make_export(const ArrayInfo& info, Keeper keeper) {
  auto made = std::make_unique<Export<Managed>>();
  made->keeper = std::move(keeper);
  for (int k = 0; k < info.view.ndim; ++k) {
    made->shape[k] = info.view.shape[k];
    made->strides[k] = info.view.stride_bytes[k] / info.view.item_bytes;
  }
  DLTensor& tensor = made->managed.dl_tensor;
  tensor.data = info.view.data;
  tensor.device = info.device;
  tensor.ndim = info.view.ndim;
  tensor.dtype = dtype_to_dlpack(static_cast<DType>(info.dtype));
  tensor.shape = made->shape;
  tensor.strides = made->strides;
  made->managed.manager_ctx = made.get();
  made->managed.deleter = delete_export<Managed>;
  return made;
}

std::unique_ptr<Export<DLManagedTensorVersioned>> make_versioned(const ArrayInfo& info,
                                                                 Keeper keeper) {
  auto made = make_export<DLManagedTensorVersioned>(info, std::move(keeper));
  made->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  made->managed.flags = info.is_read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  return made;
}

template <class Managed>
nb::object as_capsule(std::unique_ptr<Export<Managed>> made) {
  nb::object capsule =
      nb::steal(PyCapsule_New(&made->managed, kCapsuleName<Managed>, delete_capsule<Managed>));
  if (!capsule.is_valid()) throw nb::python_error();
  made.release();
  return capsule;
}

[[noreturn]] void refuse(const char* text) {
  PyErr_SetString(PyExc_BufferError, text);
  throw nb::python_error();
}

/// Whether the consumer supports DLPack 1, by its argument `max_version`.
bool knows_versions(nb::handle max_version) {
  if (max_version.is_none()) return false;
  nb::object major = nb::steal(PySequence_GetItem(max_version.ptr(), 0));
  if (!major.is_valid()) throw nb::python_error();
  return nb::cast<int64_t>(major) >= DLPACK_MAJOR_VERSION;
}

void check_device(const ArrayInfo& info, nb::handle dl_device) {
  if (dl_device.is_none()) return;
  auto [type, id] = nb::cast<std::pair<int64_t, int64_t>>(dl_device);
  if (type != info.device.device_type || id != info.device.device_id) {
    refuse("the memory is on another device");
  }
}

bool has_whole_strides(const ArrayInfo& info) {
  for (int k = 0; k < info.view.ndim; ++k) {
    if (info.view.stride_bytes[k] % info.view.item_bytes != 0) return false;
  }
  return true;
}

void check_elements(const ArrayInfo& info) {
  if (info.dtype < 0) refuse("DLPack has no dtype for these elements");
  if (info.has_lazy_sign) refuse("the elements still have to be negated");
}

/// Makes the consumer's stream wait for all queued uses of the memory.
void hand_over(const ArrayMemory& self, nb::handle stream) {
  // -1 asks for no synchronization, which the CPU does not need.
  int64_t handle = stream.is_none() ? 1 : nb::cast<int64_t>(stream);
  if (self.is_on_host()) {
    if (!stream.is_none() && handle != -1) refuse("memory of the CPU has no stream");
    return;
  }
  if (handle < -1 || handle == 0) {
    refuse("a stream of CUDA is 1, 2, -1 or a handle: 0 could be either of two");
  }
  if (self.allocation == nullptr) return;
  self.allocation->note_export();
  if (handle == -1) return;
  auto& device = cuda::Device::get(self.device.device_id);
  self.allocation->delay(*cuda::Stream::wrap(device, static_cast<uintptr_t>(handle)));
}

nb::object export_memory(const ArrayMemory& self, nb::handle stream, nb::handle max_version,
                         nb::handle dl_device, nb::handle copy) {
  release_all(nullptr);
  require_memory(self);
  check_elements(self);
  check_device(self, dl_device);
  hand_over(self, stream);
  bool is_copy = !copy.is_none() && nb::cast<bool>(copy);
  if (is_copy && !self.is_on_host()) refuse("a copy of another device's memory");
  if (!is_copy && !has_whole_strides(self)) {
    refuse("strides that are no multiple of the element: pass copy=True");
  }
  ArrayInfo info = self;
  Keeper keeper = is_copy ? copy_to_own_memory(info) : self.keeper;
  if (knows_versions(max_version)) {
    auto made = make_versioned(info, std::move(keeper));
    if (is_copy) made->managed.flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return as_capsule(std::move(made));
  }
  if (info.is_read_only) {
    refuse("DLPack before version 1 cannot say that memory is read-only: pass max_version or copy");
  }
  return as_capsule(make_export<DLManagedTensor>(info, std::move(keeper)));
}

/// A tensor of DLPack 1, whose deleter the caller owns; throws with BufferError set.
DLManagedTensorVersioned* export_versioned(const ArrayMemory& memory) {
  require_memory(memory);
  check_elements(memory);
  if (!has_whole_strides(memory)) refuse("strides that are no multiple of the element");
  return &make_versioned(memory, memory.keeper).release()->managed;
}

// The exchange API: C functions that other libraries call without Python.

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
    auto* array = static_cast<PyObject*>(object);
    if (!is_array_memory(Py_TYPE(array))) {
      PyErr_SetString(PyExc_TypeError, "expected an array of kernelcore");
      throw nb::python_error();
    }
    const ArrayMemory* memory = array_memory_of(array);
    if (memory == nullptr) {
      PyErr_SetString(PyExc_TypeError, "an array that is not initialized");
      throw nb::python_error();
    }
    // `current_stream` tells consumers to use the legacy default stream.
    if (memory->allocation != nullptr && memory->is_on_cuda()) {
      memory->allocation->note_export();
      auto& device = cuda::Device::get(memory->device.device_id);
      memory->allocation->delay(*cuda::Stream::legacy(device));
    }
    *out = export_versioned(*memory);
  });
}

int import_tensor(DLManagedTensorVersioned* tensor, void** out) {
  return succeeds([&] {
    ArrayMemory memory{};
    // The tensor is owned, and released even if it cannot be read.
    memory.keeper = keeper_of(tensor);
    if (!read_managed(*tensor, memory)) throw nb::python_error();
    memory.storage = storage_of(memory);
    *out = nb::cast(std::move(memory)).release().ptr();
  });
}

int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
             void (*set_error)(void*, const char*, const char*)) {
  ArrayMemory memory{};
  memory.dtype = dtype_from_dlpack(prototype->dtype);
  memory.device = prototype->device;
  memory.view.ndim = prototype->ndim;
  bool is_known = memory.dtype >= 0 && memory.is_on_host() && prototype->ndim >= 0 &&
                  prototype->ndim <= kMaxArrayDims;
  if (!is_known) {
    set_error(context, "BufferError", "kernelcore has no such arrays");
    return -1;
  }
  memory.view.item_bytes = static_cast<int64_t>(size_bytes(static_cast<DType>(memory.dtype)));
  std::copy_n(prototype->shape, prototype->ndim, memory.view.shape);
  try {
    memory.keeper = take_own_memory(memory);
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

const DLPackExchangeAPI kExchangeApi{
    .header = {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, nullptr},
    .managed_tensor_allocator = allocate,
    .managed_tensor_from_py_object_no_sync = export_object,
    .managed_tensor_to_py_object_no_sync = import_tensor,
    // A borrowed tensor has no storage for strides, which DLPack counts in elements.
    .dltensor_from_py_object_no_sync = nullptr,
    .current_work_stream = current_stream,
};

}  // namespace

void bind_dlpack_export(nb::class_<ArrayMemory>& memory) {
  memory
      .def("__dlpack__", &export_memory, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: int | None = None, "
                   "max_version: tuple[int, int] | None = None, "
                   "dl_device: tuple[int, int] | None = None, copy: bool | None = None) "
                   "-> typing.Any"),
           "A capsule of the memory.")
      .def("__dlpack_device__", [](const ArrayMemory& self) {
        return std::pair(static_cast<int>(self.device.device_type), self.device.device_id);
      });
  // Of the class and, by inheritance, of its subclasses.
  memory.attr("__dlpack_c_exchange_api__") = nb::capsule(&kExchangeApi, "dlpack_exchange_api");
}

}  // namespace kernelcore::bind
