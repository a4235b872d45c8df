#include "bind/array/dlpack_export.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "bind/array/dlpack_import.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

// A consumer may call a deleter on any thread, without the GIL, or under a lock of its own that
// freeing the memory would take again: what was exported is let go later, by the interpreter.
std::mutex g_mutex;
bool g_is_scheduled = false;

std::vector<Keeper>& released() {
  static auto* keepers = new std::vector<Keeper>();
  return *keepers;
}

int let_go(void*) {
  std::vector<Keeper> taken;
  {
    std::lock_guard lock(g_mutex);
    g_is_scheduled = false;
    taken.swap(released());
  }
  return 0;
}

void let_go_later(Keeper&& keeper) {
  std::lock_guard lock(g_mutex);
  released().push_back(std::move(keeper));
  // At the end of the process there is nobody left to let go.
  if (Py_IsInitialized() == 0) return;
  if (!g_is_scheduled) g_is_scheduled = Py_AddPendingCall(let_go, nullptr) == 0;
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
  let_go_later(std::move(owned->keeper));
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
  int64_t item_bytes = info.item_bytes;
  for (int k = 0; k < info.view.ndim; ++k) {
    made->shape[k] = info.view.shape[k];
    made->strides[k] = info.view.stride_bytes[k] / item_bytes;
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

/// Whether the caller, who gives the highest version it knows, knows DLPack 1.
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
    if (info.view.stride_bytes[k] % info.item_bytes != 0) return false;
  }
  return true;
}

void check_elements(const ArrayInfo& info) {
  if (info.dtype < 0) refuse("DLPack has no dtype for these elements");
  if (info.has_lazy_sign) refuse("the elements still have to be negated");
}

/// Lets the consumer's stream wait for what the memory's users were given so far.
void hand_over(const ArrayMemory& self, nb::handle stream) {
  // -1 asks for no synchronisation, of which the CPU needs none.
  int64_t handle = stream.is_none() ? 1 : nb::cast<int64_t>(stream);
  if (self.info.is_on_host()) {
    if (!stream.is_none() && handle != -1) refuse("memory of the CPU has no stream");
    return;
  }
  if (handle < -1 || handle == 0) {
    refuse("a stream of CUDA is 1, 2, -1 or a handle: 0 could be either of two");
  }
  if (self.allocation == nullptr) return;
  self.allocation->note_export();
  if (handle == -1) return;
  auto& device = cuda::Device::get(self.info.device.device_id);
  self.allocation->delay(*cuda::Stream::wrap(device, static_cast<uintptr_t>(handle)));
}

nb::object export_memory(const ArrayMemory& self, nb::handle stream, nb::handle max_version,
                         nb::handle dl_device, nb::handle copy) {
  let_go(nullptr);
  check_elements(self.info);
  check_device(self.info, dl_device);
  hand_over(self, stream);
  bool is_copy = !copy.is_none() && nb::cast<bool>(copy);
  if (is_copy && !self.info.is_on_host()) refuse("a copy of another device's memory");
  if (!is_copy && !has_whole_strides(self.info)) {
    refuse("strides that are no multiple of the element: pass copy=True");
  }
  ArrayInfo info = self.info;
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

}  // namespace

DLManagedTensorVersioned* export_versioned(const ArrayMemory& memory) {
  check_elements(memory.info);
  if (!has_whole_strides(memory.info)) refuse("strides that are no multiple of the element");
  return &make_versioned(memory.info, memory.keeper).release()->managed;
}

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
      .def(
          "__dlpack_device__",
          [](const ArrayMemory& self) {
            return nb::make_tuple(static_cast<int>(self.info.device.device_type),
                                  self.info.device.device_id);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def(
          "as_scalar",
          [](const ArrayMemory& self, int index) {
            bool is_known = index >= 0 && index < kDTypeCount;
            if (!is_known || size_bytes(static_cast<DType>(index)) !=
                                 static_cast<size_t>(self.info.item_bytes)) {
              throw nb::value_error("as_scalar: another size");
            }
            ArrayMemory found = self;
            found.info.dtype = index;
            return found;
          },
          nb::arg("index"), nb::sig("def as_scalar(self, index: int) -> ArrayMemory"),
          "The bits as elements of another scalar type of the same size, by its place in "
          "`types.SCALARS`.");
}

}  // namespace kernelcore::bind
