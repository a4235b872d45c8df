#include <iterator>
#include <string_view>

#include "bind/array/memory_protocols.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

int dtype_from_format(const char* format, Py_ssize_t item_bytes) {
  constexpr std::string_view kLetters[] = {"?", "bhilq", "BHILQ", "efd"};  // by ScalarKind
  if (format == nullptr) return -1;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return -1;
  for (size_t kind = 0; kind < std::size(kLetters); ++kind) {
    bool is_known = kLetters[kind].find(*format) != std::string_view::npos;
    if (is_known) return dtype_of(static_cast<ScalarKind>(kind), item_bytes);
  }
  return -1;
}

bool read_buffer(const Py_buffer& buffer, ArrayInfo& info) {
  if (buffer.ndim > kMaxArrayDims) {
    PyErr_Format(PyExc_BufferError, "an array of %d dimensions, more than arrays have",
                 buffer.ndim);
    return false;
  }
  info.view.data = buffer.buf;
  info.view.ndim = buffer.ndim;
  info.view.item_bytes = buffer.itemsize;
  for (int k = 0; k < buffer.ndim; ++k) {
    info.view.shape[k] = buffer.shape != nullptr ? buffer.shape[k] : buffer.len / buffer.itemsize;
  }
  // Exporters of contiguous memory may omit the strides.
  info.view.set_contiguous();
  for (int k = 0; buffer.strides != nullptr && k < buffer.ndim; ++k) {
    info.view.stride_bytes[k] = buffer.strides[k];
  }
  info.dtype = dtype_from_format(buffer.format, buffer.itemsize);
  info.device = {kDLCPU, 0};
  info.is_read_only = buffer.readonly != 0;
  info.has_lazy_sign = false;
  return true;
}

}  // namespace

Keeper keep_buffer(PyObject* object, ArrayInfo& info) {
  auto buffer = std::make_unique<Py_buffer>();
  // Request read-only access: the exporter then reports `readonly` instead of raising.
  if (PyObject_GetBuffer(object, buffer.get(), PyBUF_RECORDS_RO) != 0) return nullptr;
  bool is_read = read_buffer(*buffer, info);
  Keeper keeper(buffer.release(), [](void* held) {
    std::unique_ptr<Py_buffer> owned(static_cast<Py_buffer*>(held));
    PyBuffer_Release(owned.get());
  });
  return is_read ? keeper : nullptr;
}

nb::object bits_of_bfloat16(PyObject* object) {
  nb::object dtype = nb::steal(PyObject_GetAttrString(object, "dtype"));
  if (!dtype.is_valid()) return {};
  nb::object name = nb::steal(PyObject_GetAttrString(dtype.ptr(), "name"));
  bool is_bfloat16 = name.is_valid() && PyUnicode_Check(name.ptr()) != 0 &&
                     PyUnicode_CompareWithASCIIString(name.ptr(), name_of(DType::kBFloat16)) == 0;
  if (!is_bfloat16) return {};
  return nb::steal(PyObject_CallMethod(object, "view", "s", "uint16"));
}

}  // namespace kernelcore::bind
