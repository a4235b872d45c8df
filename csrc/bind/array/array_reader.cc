#include "bind/array/array_reader.h"

#include <array>
#include <optional>

#include "bind/array/array_interface.h"
#include "bind/array/array_memory.h"
#include "bind/array/buffer_protocol.h"
#include "bind/array/builtin_call.h"
#include "bind/array/numpy_access.h"
#include "bind/torch/tensor_access.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

enum class Route : uint8_t { kMemory, kExchange, kBuffer, kCapsule, kCuda, kInterface, kNone };

/// How arrays of one Python type are read.
struct TypeEntry {
  PyTypeObject* type = nullptr;
  Route route = Route::kNone;
  const DLPackExchangeAPI* api = nullptr;
  bool is_numpy = false;             // tried before its route
  TensorAccess tensor;               // asks the array itself, before its type is
  BuiltinCall is_negated;            // says whether an array of this type has a lazy sign
  PyObject* note_written = nullptr;  // called with an array of this type that was written
  bool notes_tuples = false;         // called with a tuple of arrays instead
};

// Types seen so far, held so that their addresses stay theirs; guarded by the GIL.
constexpr size_t kTypeEntries = 16;
std::array<TypeEntry, kTypeEntries> g_entries;
size_t g_next_entry = 0;

bool has_attribute(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (value == nullptr) PyErr_Clear();
  Py_XDECREF(value);
  return value != nullptr;
}

/// An attribute, or null without an error.
PyObject* attribute_of(PyObject* object, const char* name) {
  PyObject* value = object != nullptr ? PyObject_GetAttrString(object, name) : nullptr;
  if (value == nullptr) PyErr_Clear();
  return value;
}

PyObject* attribute_of_module(const char* module_name, const char* name) {
  nb::object key = nb::steal(PyUnicode_FromString(module_name));
  nb::object module = nb::steal(PyImport_GetModule(key.ptr()));
  return attribute_of(module.ptr(), name);
}

// What autograd wants to be told when a tensor changes; nothing for other arrays. Held for ever.
void find_version_counter(PyObject* type, TypeEntry& entry) {
  entry.note_written = attribute_of(type, "_bump_inplace_version");
  if (entry.note_written != nullptr || !has_attribute(type, "_version")) return;
  // What the public function calls takes a quarter of its time.
  entry.note_written = attribute_of_module("torch._C", "_increment_version");
  entry.notes_tuples = entry.note_written != nullptr;
  if (entry.notes_tuples) return;
  entry.note_written = attribute_of_module("torch.autograd.graph", "increment_version");
}

Route route_of(PyObject* object) {
  if (PyObject_CheckBuffer(object) != 0) return Route::kBuffer;
  if (has_attribute(object, "__dlpack__")) return Route::kCapsule;
  if (has_attribute(object, "__cuda_array_interface__")) return Route::kCuda;
  bool has_numpy =
      has_attribute(object, "__array_interface__") || has_attribute(object, "__array__");
  return has_numpy ? Route::kInterface : Route::kNone;
}

TypeEntry classify(PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  TypeEntry entry;
  entry.type = Py_TYPE(object);
  if (is_array_memory(Py_TYPE(object))) {
    entry.route = Route::kMemory;
    return entry;
  }
  entry.api = exchange_api_of(type);
  entry.route = entry.api != nullptr ? Route::kExchange : route_of(object);
  entry.is_numpy = is_numpy_array(Py_TYPE(object));
  if (entry.api != nullptr) {
    entry.tensor = TensorAccess::of(object, *entry.api);
    entry.is_negated = BuiltinCall::of_method(object, "is_neg");
    find_version_counter(type, entry);
  }
  return entry;
}

const TypeEntry& entry_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  for (const TypeEntry& entry : g_entries) {
    if (entry.type == type) return entry;
  }
  TypeEntry fresh = classify(object);
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  TypeEntry& entry = g_entries[g_next_entry];
  g_next_entry = (g_next_entry + 1) % kTypeEntries;
  Py_XDECREF(reinterpret_cast<PyObject*>(entry.type));
  entry = fresh;
  return entry;
}

/// Notes in which stream of its device the owner of what was read works.
void find_work_stream(const DLPackExchangeAPI& api, ArrayInfo& info) {
  void* stream = nullptr;
  if (!info.is_on_cuda() || api.current_work_stream == nullptr) return;
  if (api.current_work_stream(info.device.device_type, info.device.device_id, &stream) != 0) {
    PyErr_Clear();
    return;
  }
  // Null is the legacy default stream, which array interfaces call 1.
  info.stream = stream == nullptr ? 1 : reinterpret_cast<uintptr_t>(stream);
  info.is_tied = true;
}

/// Whether the elements of an array of a type with `is_negated` still have to be negated.
bool has_lazy_sign(PyObject* object, const TensorAccess& tensor, const BuiltinCall& is_negated) {
  if (tensor.is_valid()) return tensor.is_negated(object);
  if (!is_negated.is_valid()) return false;
  nb::object result = is_negated(object);
  if (!result.is_valid()) {
    PyErr_Clear();
    return false;
  }
  return result.ptr() == Py_True;
}

bool read_exchange(PyObject* object, const TypeEntry& entry, ArrayInfo& info) {
  // Calls of Python may replace the entry.
  TensorAccess access = entry.tensor;
  BuiltinCall is_negated = entry.is_negated;
  const DLPackExchangeAPI& api = *entry.api;
  DLTensor tensor;
  bool is_described = access.is_valid() && access.describe(object, tensor);
  if (!is_described && api.dltensor_from_py_object_no_sync(object, &tensor) != 0) return false;
  if (!read_dl_tensor(tensor, info)) return false;
  if (!info.is_on_host()) find_work_stream(api, info);
  info.has_lazy_sign = has_lazy_sign(object, access, is_negated);
  return true;
}

bool adopt_exchange(PyObject* object, const TypeEntry& entry, ArrayInfo& info, Keeper& keeper) {
  // Calls of Python may replace the entry.
  TensorAccess access = entry.tensor;
  BuiltinCall is_negated = entry.is_negated;
  const DLPackExchangeAPI& api = *entry.api;
  DLManagedTensorVersioned* managed = nullptr;
  if (api.managed_tensor_from_py_object_no_sync(object, &managed) != 0) return false;
  keeper = keeper_of(managed);
  if (!read_dl_tensor(managed->dl_tensor, info)) return false;
  if (!info.is_on_host()) find_work_stream(api, info);
  info.is_read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  info.has_lazy_sign = has_lazy_sign(object, access, is_negated);
  return true;
}

/// The memory of an array of `Route::kCapsule`: the capsule, or invalid with an error set or, where
/// it is another device's, without.
nb::object read_export(PyObject* object, Place place, ArrayInfo& info) {
  nb::object capsule = export_capsule(object, place.stream, info);
  if (!capsule.is_valid() || !read_capsule(capsule.ptr(), info)) return {};
  return capsule;
}

// Of an array on another device that exports capsules only its device is known.
void describe_elsewhere(ArrayInfo& info) {
  info.view.data = nullptr;
  info.view.ndim = 0;
  info.dtype = -1;
  info.item_bytes = 0;
  info.is_read_only = true;
  info.has_lazy_sign = false;
}

/// What the buffer protocol cannot say, of a type that has it: bfloat16 of NumPy, which it views as
/// integers, and of JAX, whose capsules do not say that the memory is read-only.
bool adopt_bfloat16(PyObject* object, ArrayInfo& info, Keeper& keeper) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  nb::object capsule =
      has_attribute(object, "__dlpack__") ? read_export(object, {}, info) : nb::object();
  if (capsule.is_valid()) {
    keeper = take_capsule(capsule.ptr());
    info.is_read_only = true;
  } else {
    PyErr_Clear();
    nb::object bits = bits_of_bfloat16(object);
    if (bits.is_valid()) keeper = keep_buffer(bits.ptr(), info);
    if (keeper != nullptr) info.dtype = static_cast<int>(DType::kBFloat16);
  }
  if (keeper == nullptr) {
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return false;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return true;
}

bool adopt_capsule(PyObject* object, Place place, ArrayInfo& info, Keeper& keeper) {
  nb::object capsule = read_export(object, place, info);
  if (capsule.is_valid()) {
    keeper = take_capsule(capsule.ptr());
    return true;
  }
  if (PyErr_Occurred() != nullptr) return false;
  describe_elsewhere(info);
  return true;
}

bool adopt_interface(PyObject* object, bool writable, ArrayInfo& info, Keeper& keeper) {
  nb::object view = numpy_view_of(object, writable);
  if (!view.is_valid()) return false;
  keeper = keep_buffer(view.ptr(), info);
  if (keeper == nullptr) return adopt_bfloat16(view.ptr(), info, keeper);
  if (describes_memory(info.view, info.item_bytes)) return true;
  PyErr_SetString(PyExc_BufferError, "an array whose shape and strides describe no memory");
  return false;
}

/// Reads what both readers read alike: memory of our own, and what is no array; nothing else.
std::optional<ReadStatus> read_own(PyObject* object, Route route, ArrayInfo& info, Keeper* keeper) {
  if (route == Route::kNone) return ReadStatus::kNotAnArray;
  if (route != Route::kMemory) return std::nullopt;
  const ArrayMemory* memory = array_memory_of(object);
  if (memory == nullptr) return ReadStatus::kNotAnArray;
  info = memory->info;
  if (keeper != nullptr) *keeper = memory->keeper;
  return ReadStatus::kOk;
}

/// The routes that make objects on the way, which `keeper` keeps.
bool adopt_slowly(PyObject* object, Route route, bool writable, Place place, ArrayInfo& info,
                  Keeper& keeper) {
  switch (route) {
    case Route::kCapsule:
      return adopt_capsule(object, place, info, keeper);
    case Route::kCuda: {
      if (!read_cuda_interface(object, place, info)) return false;
      keeper = Keeper(nb::handle(object).inc_ref().ptr(),
                      [](void* held) { Py_DECREF(static_cast<PyObject*>(held)); });
      return true;
    }
    case Route::kInterface:
      return adopt_interface(object, writable, info, keeper);
    case Route::kBuffer:
      return adopt_bfloat16(object, info, keeper);
    case Route::kMemory:
    case Route::kExchange:
    case Route::kNone:
      break;
  }
  return false;
}

}  // namespace

Leases::~Leases() {
  for (size_t i = 0; i < buffer_count_; ++i) PyBuffer_Release(&buffers_[i]);
}

void note_written(PyObject* object) {
  const TypeEntry& entry = entry_of(object);
  if (entry.route == Route::kMemory) array_memory_of(object)->count_write();
  if (entry.tensor.is_valid() && entry.tensor.note_written(object)) return;
  PyObject* note = entry.note_written;
  if (note == nullptr) return;
  nb::object noted = nb::borrow(object);
  if (entry.notes_tuples) noted = nb::steal(PyTuple_Pack(1, object));
  nb::object result = call_function(note, noted.ptr());
  // Tensors of inference mode keep no version.
  if (!result.is_valid()) PyErr_Clear();
}

const ArrayInfo* known_info(PyObject* object) {
  if (entry_of(object).route != Route::kMemory) return nullptr;
  const ArrayMemory* memory = array_memory_of(object);
  return memory != nullptr ? &memory->info : nullptr;
}

ReadStatus read_array(PyObject* object, bool writable, ArrayInfo& info, Leases& leases,
                      Place place) {
  const TypeEntry& entry = entry_of(object);
  Route route = entry.route;
  if (auto status = read_own(object, route, info, nullptr)) return *status;
  if (entry.is_numpy && read_numpy(object, info)) return ReadStatus::kOk;
  bool is_read = false;
  if (route == Route::kExchange) {
    is_read = read_exchange(object, entry, info);
  } else if (Py_buffer* buffer = leases.next_buffer();
             route == Route::kBuffer && export_buffer(object, buffer)) {
    leases.keep_buffer();
    is_read = read_buffer(*buffer, info);
  } else {
    is_read = adopt_slowly(object, route, writable, place, info, leases.next_keeper());
  }
  return is_read ? ReadStatus::kOk : ReadStatus::kRefused;
}

ReadStatus adopt_array(PyObject* object, ArrayInfo& info, Keeper& keeper, Place place) {
  if (PyCapsule_CheckExact(object) != 0) {
    return adopt_capsule(object, place, info, keeper) ? ReadStatus::kOk : ReadStatus::kRefused;
  }
  const TypeEntry& entry = entry_of(object);
  Route route = entry.route;
  if (auto status = read_own(object, route, info, &keeper)) return *status;
  if (route == Route::kBuffer) keeper = keep_buffer(object, info);
  bool is_read = keeper != nullptr;
  if (route == Route::kExchange) {
    is_read = adopt_exchange(object, entry, info, keeper);
  } else if (!is_read) {
    is_read = adopt_slowly(object, route, true, place, info, keeper);
  }
  return is_read ? ReadStatus::kOk : ReadStatus::kRefused;
}

}  // namespace kernelcore::bind
