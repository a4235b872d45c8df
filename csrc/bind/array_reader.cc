#include "bind/array_reader.h"

#include <algorithm>
#include <array>

#include "bind/array_memory.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

enum class Route : uint8_t { kMemory, kExchange, kBuffer, kCapsule, kNone };

/// How arrays of one Python type are read.
struct TypeEntry {
  PyTypeObject* type = nullptr;
  Route route = Route::kNone;
  const DLPackExchangeAPI* api = nullptr;
  bool may_have_lazy_sign = false;
  PyObject* note_written = nullptr;  // called with an array of this type that was written
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

// What autograd wants to be told when a tensor changes; null for other arrays. Held for ever.
PyObject* version_counter_of(PyObject* type) {
  if (!has_attribute(type, "_version")) return nullptr;
  nb::object name = nb::steal(PyUnicode_FromString("torch.autograd.graph"));
  nb::object module = nb::steal(PyImport_GetModule(name.ptr()));
  PyObject* bump =
      module.is_valid() ? PyObject_GetAttrString(module.ptr(), "increment_version") : nullptr;
  if (bump == nullptr) PyErr_Clear();
  return bump;
}

TypeEntry classify(PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  TypeEntry entry{.type = Py_TYPE(object)};
  if (is_array_memory(Py_TYPE(object))) {
    entry.route = Route::kMemory;
    return entry;
  }
  entry.api = exchange_api_of(type);
  if (entry.api != nullptr) {
    entry.route = Route::kExchange;
    entry.may_have_lazy_sign = has_attribute(type, "is_neg");
    entry.note_written = version_counter_of(type);
  } else if (PyObject_CheckBuffer(object)) {
    entry.route = Route::kBuffer;
  } else if (has_attribute(object, "__dlpack__")) {
    entry.route = Route::kCapsule;
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
  TypeEntry& slot = g_entries[g_next_entry];
  g_next_entry = (g_next_entry + 1) % kTypeEntries;
  Py_XDECREF(reinterpret_cast<PyObject*>(slot.type));
  slot = fresh;
  return slot;
}

int sized_integer(bool is_signed, Py_ssize_t item_bytes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeTraits& known = traits_of(static_cast<DType>(i));
    bool fits = known.kind == (is_signed ? ScalarKind::kInt : ScalarKind::kUInt);
    if (fits && static_cast<Py_ssize_t>(known.size_bytes) == item_bytes) return i;
  }
  return -1;
}

int dtype_from_format(const char* format, Py_ssize_t item_bytes) {
  if (format == nullptr) return -1;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return -1;
  switch (*format) {
    case '?':
      return static_cast<int>(DType::kBool);
    case 'e':
      return static_cast<int>(DType::kFloat16);
    case 'f':
      return static_cast<int>(DType::kFloat32);
    case 'd':
      return static_cast<int>(DType::kFloat64);
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return sized_integer(true, item_bytes);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return sized_integer(false, item_bytes);
    default:
      return -1;
  }
}

// The buffer protocol has no bfloat16: such an array of NumPy is read as one of its bits. Returns
// null, with the Python error that was set, for other objects.
nb::object bits_of_bfloat16(PyObject* object) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  nb::object bits;
  nb::object dtype = nb::steal(PyObject_GetAttrString(object, "dtype"));
  nb::object name =
      dtype.is_valid() ? nb::steal(PyObject_GetAttrString(dtype.ptr(), "name")) : nb::object();
  if (name.is_valid() && PyUnicode_Check(name.ptr()) != 0 &&
      PyUnicode_CompareWithASCIIString(name.ptr(), name_of(DType::kBFloat16)) == 0) {
    bits = nb::steal(PyObject_CallMethod(object, "view", "s", "uint16"));
  }
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  if (bits.is_valid()) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  } else {
    PyErr_Restore(type, value, traceback);
  }
  return bits;
}

/// Exports the memory of `object` to `buffer`, writable where it can be; false with an error set.
bool export_buffer(PyObject* object, bool writable, Py_buffer* buffer) {
  if (writable) {
    if (PyObject_GetBuffer(object, buffer, PyBUF_RECORDS) == 0) return true;
    PyErr_Clear();
  }
  return PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) == 0;
}

ReadStatus read_buffer(PyObject* object, bool writable, ArrayInfo& info, Leases& leases) {
  Py_buffer* buffer = leases.next_buffer();
  bool is_bfloat16 = false;
  if (!export_buffer(object, writable, buffer)) {
    nb::object bits = bits_of_bfloat16(object);
    is_bfloat16 = bits.is_valid();
    if (!is_bfloat16 || !export_buffer(bits.ptr(), writable, buffer)) return ReadStatus::kRefused;
  }
  leases.keep_buffer();
  info.view.data = buffer->buf;
  info.view.ndim = buffer->ndim;
  for (int k = 0; k < std::min(buffer->ndim, kMaxArrayDims); ++k) {
    info.view.shape[k] =
        buffer->shape != nullptr ? buffer->shape[k] : buffer->len / buffer->itemsize;
  }
  // Exporters of contiguous memory may leave the strides out.
  info.view.set_contiguous(static_cast<size_t>(buffer->itemsize));
  for (int k = 0; buffer->strides != nullptr && k < std::min(buffer->ndim, kMaxArrayDims); ++k) {
    info.view.stride_bytes[k] = buffer->strides[k];
  }
  info.dtype = is_bfloat16 ? static_cast<int>(DType::kBFloat16)
                           : dtype_from_format(buffer->format, buffer->itemsize);
  info.device = {kDLCPU, 0};
  info.is_read_only = buffer->readonly != 0;
  info.has_lazy_sign = false;
  return ReadStatus::kOk;
}

ReadStatus read_memory(PyObject* object, ArrayInfo& info) {
  const ArrayMemory* memory = array_memory_of(object);
  if (memory == nullptr) return ReadStatus::kNotAnArray;
  info = memory->info;
  return ReadStatus::kOk;
}

bool has_lazy_sign(PyObject* object) {
  static PyObject* const kIsNeg = PyUnicode_InternFromString("is_neg");
  nb::object result = nb::steal(PyObject_CallMethodObjArgs(object, kIsNeg, nullptr));
  if (!result.is_valid()) {
    PyErr_Clear();
    return false;
  }
  return result.ptr() == Py_True;
}

ReadStatus read_exchange(PyObject* object, const TypeEntry& entry, ArrayInfo& info) {
  bool may_have_lazy_sign = entry.may_have_lazy_sign;
  DLTensor tensor;
  if (entry.api->dltensor_from_py_object_no_sync(object, &tensor) != 0) {
    return ReadStatus::kRefused;
  }
  read_dl_tensor(tensor, info);
  info.has_lazy_sign = may_have_lazy_sign && has_lazy_sign(object);
  return ReadStatus::kOk;
}

PyObject* export_capsule(PyObject* object) {
  nb::object method = nb::steal(PyObject_GetAttrString(object, "__dlpack__"));
  if (!method.is_valid()) return nullptr;
  nb::object arguments = nb::steal(PyTuple_New(0));
  nb::object keywords = nb::steal(
      Py_BuildValue("{s:(ii)}", "max_version", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION));
  PyObject* capsule = PyObject_Call(method.ptr(), arguments.ptr(), keywords.ptr());
  if (capsule != nullptr || !PyErr_ExceptionMatches(PyExc_TypeError)) return capsule;
  // Exporters older than DLPack 1.0 do not know the keyword.
  PyErr_Clear();
  return PyObject_Call(method.ptr(), arguments.ptr(), nullptr);
}

ReadStatus read_capsule(PyObject* object, ArrayInfo& info, Leases& leases) {
  PyObject* capsule = export_capsule(object);
  if (capsule == nullptr) return ReadStatus::kRefused;
  leases.keep_object(capsule);
  if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0) {
    auto* managed =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
      PyErr_Format(PyExc_BufferError, "DLPack version %u is not supported", managed->version.major);
      return ReadStatus::kRefused;
    }
    read_dl_tensor(managed->dl_tensor, info);
    info.is_read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    return ReadStatus::kOk;
  }
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  if (managed == nullptr) return ReadStatus::kRefused;
  read_dl_tensor(managed->dl_tensor, info);
  return ReadStatus::kOk;
}

}  // namespace

Leases::~Leases() {
  for (size_t i = 0; i < buffer_count_; ++i) PyBuffer_Release(&buffers_[i]);
  for (size_t i = 0; i < object_count_; ++i) Py_DECREF(objects_[i]);
}

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
                api->dltensor_from_py_object_no_sync != nullptr;
  return usable ? api : nullptr;
}

int dtype_from_dlpack(DLDataType dtype) {
  if (dtype.lanes != 1) return -1;
  for (int i = 0; i < kDTypeCount; ++i) {
    DLDataType known = dtype_to_dlpack(static_cast<DType>(i));
    if (known.code == dtype.code && known.bits == dtype.bits) return i;
  }
  return -1;
}

DLDataType dtype_to_dlpack(DType dtype) {
  constexpr uint8_t kCodes[] = {kDLBool, kDLInt, kDLUInt, kDLFloat};  // by ScalarKind
  auto bits = static_cast<uint8_t>(8 * size_bytes(dtype));
  if (dtype == DType::kBFloat16) return {kDLBfloat, bits, 1};
  return {kCodes[static_cast<size_t>(traits_of(dtype).kind)], bits, 1};
}

void read_dl_tensor(const DLTensor& tensor, ArrayInfo& info) {
  info.view.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  info.view.ndim = tensor.ndim;
  info.dtype = dtype_from_dlpack(tensor.dtype);
  info.device = tensor.device;
  info.is_read_only = false;
  info.has_lazy_sign = false;
  int64_t item_bytes = tensor.dtype.bits / 8;
  int64_t contiguous = item_bytes;
  for (int k = std::min(tensor.ndim, kMaxArrayDims) - 1; k >= 0; --k) {
    info.view.shape[k] = tensor.shape[k];
    info.view.stride_bytes[k] =
        tensor.strides != nullptr ? tensor.strides[k] * item_bytes : contiguous;
    contiguous *= tensor.shape[k];
  }
}

void note_written(PyObject* object) {
  const TypeEntry& entry = entry_of(object);
  if (entry.route == Route::kMemory) ++*array_memory_of(object)->version;
  PyObject* note = entry.note_written;
  if (note == nullptr) return;
  nb::object result = nb::steal(PyObject_CallFunctionObjArgs(note, object, nullptr));
  // Tensors of inference mode keep no version.
  if (!result.is_valid()) PyErr_Clear();
}

ReadStatus read_array(PyObject* object, bool writable, ArrayInfo& info, Leases& leases) {
  const TypeEntry& entry = entry_of(object);
  switch (entry.route) {
    case Route::kMemory:
      return read_memory(object, info);
    case Route::kExchange:
      return read_exchange(object, entry, info);
    case Route::kBuffer:
      return read_buffer(object, writable, info, leases);
    case Route::kCapsule:
      return read_capsule(object, info, leases);
    case Route::kNone:
      break;
  }
  return ReadStatus::kNotAnArray;
}

}  // namespace kernelcore::bind
