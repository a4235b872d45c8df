#include "bind/array/array_reader.h"

#include <array>

#include "bind/array/array_memory.h"
#include "bind/array/builtin_call.h"
#include "bind/array/memory_protocols.h"
#include "bind/torch/tensor_access.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

enum class Route : uint8_t {
  kMemory,
  kExchange,
  kBuffer,
  kCapsule,
  kCuda,
  kInterface,
  kMasked,
  kNone
};

/// How arrays of one Python type are read.
struct TypeEntry {
  PyTypeObject* type = nullptr;
  Route route = Route::kNone;
  const DLPackExchangeAPI* api = nullptr;
  bool is_numpy = false;             // tried before its route
  bool may_be_negated = false;       // has a method is_neg()
  PyObject* note_written = nullptr;  // called with an array after a write
  PyObject* restore_mode = nullptr;  // called after every use of `api`
  PyObject* is_deleted = nullptr;    // of a type with buffers: whether an array has lost its memory
  // Read the C++ tensor, in place of the exchange API; null for other libraries.
  const torch::TensorFunctions* tensor = nullptr;
};

// Types seen so far, with a reference each, so that no address is reused; guarded by the GIL.
constexpr size_t kTypeEntries = 16;
std::array<TypeEntry, kTypeEntries> g_entries;
size_t g_next_entry = 0;

/// An attribute; invalid, without an error set, if there is none.
nb::object attribute_of(PyObject* object, const char* name) {
  nb::object value = nb::steal(PyObject_GetAttrString(object, name));
  if (!value.is_valid()) drop_exception();
  return value;
}

bool has_attribute(PyObject* object, const char* name) {
  return attribute_of(object, name).is_valid();
}

/// The function that increments a tensor's version; null for other arrays. Never released.
PyObject* version_counter_of(PyObject* type) {
  nb::object found = attribute_of(type, "_bump_inplace_version");
  if (!found.is_valid() && has_attribute(type, "_version")) {
    nb::object name = nb::steal(PyUnicode_FromString("torch.autograd.graph"));
    nb::object module = nb::steal(PyImport_GetModule(name.ptr()));
    if (module.is_valid()) found = attribute_of(module.ptr(), "increment_version");
  }
  return found.release().ptr();
}

/// Sets Paddle's mode of C++ operators back to eager; null for other arrays. Never released.
///
/// Its exchange API leaves them in a mode that records no derivatives, until the next operator that
/// Python calls: rules of second derivatives that run before it would be cut off from the graph.
PyObject* eager_mode_setter_of(PyObject* type) {
  if (!has_attribute(type, "_bump_inplace_version")) return nullptr;
  nb::object name = nb::steal(PyUnicode_FromString("paddle.base.core"));
  nb::object core = nb::steal(PyImport_GetModule(name.ptr()));
  nb::object partial = nb::module_::import_("functools").attr("partial");
  nb::object flags = core.is_valid() ? attribute_of(core.ptr(), "globals") : core;
  if (flags.is_valid()) flags = call_function(flags.ptr(), nullptr);
  nb::object set = flags.is_valid() ? attribute_of(flags.ptr(), "__setitem__") : flags;
  if (set.is_valid()) set = partial(set, "FLAGS_tensor_operants_mode", "eager");
  bool is_known = set.is_valid() && call_function(set.ptr(), nullptr).is_valid();
  if (!is_known) drop_exception();
  return is_known ? set.release().ptr() : nullptr;
}

/// At its end calls a function without arguments, and keeps the error that is set.
class CallAtEnd {
 public:
  explicit CallAtEnd(PyObject* function) : function_(function) {}
  CallAtEnd(const CallAtEnd&) = delete;
  CallAtEnd& operator=(const CallAtEnd&) = delete;
  ~CallAtEnd() {
    if (function_ == nullptr) return;
    nb::error_scope kept;
    if (!call_function(function_, nullptr).is_valid()) PyErr_Clear();
  }

 private:
  PyObject* function_;
};

Route route_of(PyObject* object) {
  if (is_masked(object)) return Route::kMasked;
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
    entry.tensor = tensor_functions_of(object, *entry.api);
    entry.may_be_negated = has_attribute(type, "is_neg");
    entry.note_written = version_counter_of(type);
    entry.restore_mode = eager_mode_setter_of(type);
  }
  if (entry.route == Route::kBuffer) {
    entry.is_deleted = attribute_of(type, "is_deleted").release().ptr();
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

/// Stores the stream in which the owner of the array works on its device.
void find_work_stream(const DLPackExchangeAPI& api, ArrayInfo& info) {
  void* stream = nullptr;
  if (!info.is_on_cuda() || api.current_work_stream == nullptr) return;
  if (api.current_work_stream(info.device.device_type, info.device.device_id, &stream) != 0) {
    PyErr_Clear();
    return;
  }
  // Null is the legacy default stream, which is 1 in array interfaces.
  info.stream = stream == nullptr ? 1 : reinterpret_cast<uintptr_t>(stream);
  info.is_tied = true;
}

/// Calls `object.is_neg()`.
bool is_negated(PyObject* object) {
  nb::object result = nb::steal(PyObject_CallMethod(object, "is_neg", nullptr));
  if (!result.is_valid()) drop_exception();
  return result.ptr() == Py_True;
}

/// Describes the memory of an array of `Route::kExchange`; false with an error set.
bool describe(PyObject* object, const torch::TensorFunctions* known, const DLPackExchangeAPI& api,
              DLTensor& tensor) {
  return (known != nullptr && known->describe(tensor_in(object), tensor)) ||
         api.dltensor_from_py_object_no_sync(object, &tensor) == 0;
}

bool read_exchange(PyObject* object, const TypeEntry& entry, Access access, ArrayInfo& info,
                   Keeper& keeper) {
  // Python code that runs below may replace the entry.
  CallAtEnd restored(entry.restore_mode);
  const torch::TensorFunctions* known = entry.tensor;
  bool may_be_negated = entry.may_be_negated;
  const DLPackExchangeAPI& api = *entry.api;
  bool is_kept = access == Access::kKeep;
  if (known != nullptr && !known->has_storage(tensor_in(object))) {
    PyErr_SetString(PyExc_BufferError,
                    "a tensor without storage: sparse, or wrapped by a transform of torch.func");
    return false;
  }
  if (is_kept && known != nullptr && keep_storage(*known, tensor_in(object), info, keeper)) {
    // Nothing else is kept: an exported tensor loses its storage where it gets another.
  } else if (is_kept) {
    PyErr_Clear();
    DLManagedTensorVersioned* managed = nullptr;
    if (api.managed_tensor_from_py_object_no_sync(object, &managed) != 0) return false;
    keeper = keeper_of(managed);
    if (!read_managed(*managed, info)) return false;
  } else {
    DLTensor tensor;
    if (!describe(object, known, api, tensor) || !read_dl_tensor(tensor, info)) return false;
  }
  if (known != nullptr) {
    info.is_cut = !known->holds(tensor_in(object), info.view);
    if (info.is_cut && is_kept) [[unlikely]] {
      PyErr_SetString(PyExc_BufferError, "a tensor whose storage ends before its last element");
      return false;
    }
  }
  if (!info.is_on_host()) find_work_stream(api, info);
  info.has_lazy_sign = known != nullptr ? known->is_negated(tensor_in(object))
                                        : may_be_negated && is_negated(object);
  return true;
}

/// A plain tensor over the storage of `object`, a tensor of a subclass; invalid, without an error
/// set, for other arrays and where there is none.
nb::object plain_tensor_of(PyObject* object) {
  nb::object convert = attribute_of(object, "as_subclass");
  nb::object name = nb::steal(PyUnicode_FromString("torch"));
  nb::object module = nb::steal(PyImport_GetModule(name.ptr()));
  if (!convert.is_valid() || !module.is_valid()) return {};
  nb::object type = attribute_of(module.ptr(), "Tensor");
  nb::object plain = type.is_valid() ? call_function(convert.ptr(), type.ptr()) : nb::object();
  if (!plain.is_valid()) drop_exception();
  bool is_plain =
      plain.is_valid() && reinterpret_cast<PyObject*>(Py_TYPE(plain.ptr())) == type.ptr();
  return is_plain ? plain : nb::object();
}

/// The memory of an array of `Route::kCapsule`: the capsule, or invalid with an error set or, where
/// it is another device's, without.
nb::object read_export(PyObject* object, Consumer consumer, ArrayInfo& info) {
  nb::object capsule = export_capsule(object, consumer.stream, info);
  if (!capsule.is_valid() || !read_capsule(capsule.ptr(), info)) return {};
  return capsule;
}

// Only the device is known of an array that exports capsules on another device.
void describe_elsewhere(ArrayInfo& info) {
  info.view = ArrayView{};
  info.dtype = -1;
  info.is_read_only = true;
}

/// What the buffer protocol cannot say, of a type that has it: bfloat16 of NumPy, which it views as
/// integers, bfloat16 of JAX, and arrays of JAX on a GPU. Capsules of JAX do not say that the
/// memory is read-only. Keeps the error that is set unless this reads the array.
bool adopt_unbuffered(PyObject* object, Consumer consumer, ArrayInfo& info, Keeper& keeper) {
  bool is_read = false;
  {
    nb::error_scope refusal;
    bool is_exported = has_attribute(object, "__dlpack__");
    nb::object capsule = is_exported ? read_export(object, consumer, info) : nb::object();
    if (capsule.is_valid()) {
      keeper = take_capsule(capsule.ptr());
      info.is_read_only = true;
    } else if (is_exported && PyErr_Occurred() == nullptr) {
      describe_elsewhere(info);
      is_read = true;
    } else {
      PyErr_Clear();
      nb::object bits = bits_of_bfloat16(object);
      if (bits.is_valid()) keeper = keep_buffer(bits.ptr(), info);
      if (keeper != nullptr) info.dtype = static_cast<int>(DType::kBFloat16);
      PyErr_Clear();
    }
  }
  is_read |= keeper != nullptr;
  if (is_read) PyErr_Clear();
  return is_read;
}

bool adopt_capsule(PyObject* object, Consumer consumer, ArrayInfo& info, Keeper& keeper) {
  nb::object capsule = read_export(object, consumer, info);
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
  if (keeper == nullptr) return adopt_unbuffered(view.ptr(), {}, info, keeper);
  if (describes_memory(info.view)) return true;
  PyErr_SetString(PyExc_BufferError, "an array whose shape and strides describe no memory");
  return false;
}

}  // namespace

bool is_masked(PyObject* object) {
  nb::object name = nb::steal(PyUnicode_FromString("numpy.ma"));
  nb::object module = nb::steal(PyImport_GetModule(name.ptr()));
  nb::object type = module.is_valid() ? attribute_of(module.ptr(), "MaskedArray") : nb::object();
  return type.is_valid() && PyObject_IsInstance(object, type.ptr()) == 1;
}

void note_written(PyObject* object) {
  const TypeEntry& entry = entry_of(object);
  if (entry.route == Route::kMemory) array_memory_of(object)->count_write();
  if (entry.tensor != nullptr && entry.tensor->note_written(tensor_in(object))) return;
  if (entry.note_written == nullptr) return;
  // Tensors of inference mode keep no version.
  if (!call_function(entry.note_written, object).is_valid()) PyErr_Clear();
}

bool is_followed(PyObject* object) {
  const TypeEntry& entry = entry_of(object);
  return entry.route == Route::kExchange || entry.is_deleted != nullptr;
}

bool is_unchanged(PyObject* object, const ArrayInfo& info) {
  const TypeEntry& entry = entry_of(object);
  if (entry.is_deleted != nullptr) {
    nb::object result = call_function(entry.is_deleted, object);
    if (!result.is_valid()) drop_exception();
    return result.ptr() == Py_False;
  }
  // An object may get another class.
  if (entry.route != Route::kExchange) return false;
  CallAtEnd restored(entry.restore_mode);
  DLTensor tensor;
  if (!describe(object, entry.tensor, *entry.api, tensor)) {
    drop_exception();
    return false;
  }
  if (!is_memory_of(tensor, info)) return false;
  if (entry.tensor != nullptr) return !entry.tensor->is_negated(tensor_in(object));
  return !entry.may_be_negated || !is_negated(object);
}

const ArrayInfo* known_info(PyObject* object) {
  return entry_of(object).route == Route::kMemory ? array_memory_of(object) : nullptr;
}

ReadStatus read_array(PyObject* object, Access access, ArrayInfo& info, Keeper& keeper,
                      Consumer consumer) {
  auto status = [](bool is_read) { return is_read ? ReadStatus::kOk : ReadStatus::kRefused; };
  bool is_kept = access == Access::kKeep;
  if (is_kept && PyCapsule_CheckExact(object) != 0) {
    return status(adopt_capsule(object, consumer, info, keeper));
  }
  const TypeEntry& entry = entry_of(object);
  if (!is_kept && entry.is_numpy && read_numpy(object, info)) return ReadStatus::kOk;
  switch (entry.route) {
    case Route::kMemory: {
      const ArrayMemory* memory = array_memory_of(object);
      if (memory == nullptr) return ReadStatus::kNotAnArray;
      info = *memory;
      if (is_kept) keeper = memory->keeper;
      return ReadStatus::kOk;
    }
    case Route::kExchange:
      if (is_kept && entry.tensor == nullptr) {
        nb::object plain = plain_tensor_of(object);
        PyObject* read = plain.is_valid() ? plain.ptr() : object;
        return status(read_exchange(read, entry_of(read), access, info, keeper));
      }
      return status(read_exchange(object, entry, access, info, keeper));
    case Route::kBuffer:
      keeper = keep_buffer(object, info);
      return status(keeper != nullptr || adopt_unbuffered(object, consumer, info, keeper));
    case Route::kCapsule:
      return status(adopt_capsule(object, consumer, info, keeper));
    case Route::kCuda:
      if (!read_cuda_interface(object, consumer, info)) return ReadStatus::kRefused;
      keeper = Keeper(nb::handle(object).inc_ref().ptr(),
                      [](void* held) { Py_DECREF(static_cast<PyObject*>(held)); });
      return ReadStatus::kOk;
    case Route::kInterface:
      return status(adopt_interface(object, access != Access::kRead, info, keeper));
    case Route::kMasked:
      PyErr_SetString(PyExc_BufferError, "a masked array: fill it with .filled(value) first");
      return ReadStatus::kRefused;
    case Route::kNone:
      break;
  }
  return ReadStatus::kNotAnArray;
}

}  // namespace kernelcore::bind
