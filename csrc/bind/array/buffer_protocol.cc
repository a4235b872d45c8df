#include "bind/array/buffer_protocol.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

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

}  // namespace

bool export_buffer(PyObject* object, Py_buffer* buffer) {
  // Not asked for memory to write, exporters say whether it may be written; asked for it, those of
  // read-only memory raise.
  return PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) == 0;
}

bool read_buffer(const Py_buffer& buffer, ArrayInfo& info) {
  if (buffer.ndim > kMaxArrayDims) {
    PyErr_Format(PyExc_BufferError, "an array of %d dimensions, more than arrays have",
                 buffer.ndim);
    return false;
  }
  info.view.data = buffer.buf;
  info.view.ndim = buffer.ndim;
  for (int k = 0; k < buffer.ndim; ++k) {
    info.view.shape[k] = buffer.shape != nullptr ? buffer.shape[k] : buffer.len / buffer.itemsize;
  }
  // Exporters of contiguous memory may leave the strides out.
  info.view.set_contiguous(static_cast<size_t>(buffer.itemsize));
  for (int k = 0; buffer.strides != nullptr && k < buffer.ndim; ++k) {
    info.view.stride_bytes[k] = buffer.strides[k];
  }
  info.dtype = dtype_from_format(buffer.format, buffer.itemsize);
  info.item_bytes = buffer.itemsize;
  info.device = {kDLCPU, 0};
  info.is_read_only = buffer.readonly != 0;
  info.has_lazy_sign = false;
  return true;
}

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
  PyErr_Restore(type, value, traceback);
  return bits;
}

Keeper keep_buffer(PyObject* object, ArrayInfo& info) {
  auto buffer = std::make_unique<Py_buffer>();
  if (!export_buffer(object, buffer.get())) return nullptr;
  bool is_read = read_buffer(*buffer, info);
  Keeper keeper(buffer.release(), [](void* held) {
    std::unique_ptr<Py_buffer> owned(static_cast<Py_buffer*>(held));
    PyBuffer_Release(owned.get());
  });
  return is_read ? keeper : nullptr;
}

}  // namespace kernelcore::bind
