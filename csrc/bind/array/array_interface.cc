#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "bind/array/array_memory.h"
#include "bind/array/memory_protocols.h"
#include "cuda/device.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

constexpr const char* kNoMemory = "an array interface whose shape and strides describe no memory";
constexpr std::string_view kKinds = "biuf";  // by ScalarKind

int dtype_from_typestr(const std::string& text, int64_t& item_bytes) {
  bool is_known_size = text.size() == 3 && text[2] >= '1' && text[2] <= '9';
  item_bytes = is_known_size ? text[2] - '0' : 0;
  size_t kind = kKinds.find(text[1]);
  if (text[0] == '>' || !is_known_size || kind == kKinds.npos) return -1;
  return dtype_of(static_cast<ScalarKind>(kind), item_bytes);
}

/// Reads a tuple of at most kMaxArrayDims integers; its length, or -1 with an error set.
int read_integers(nb::handle tuple, int64_t* values) {
  Py_ssize_t size = PyTuple_Check(tuple.ptr()) != 0 ? PyTuple_Size(tuple.ptr()) : -1;
  if (size < 0 || size > kMaxArrayDims) {
    PyErr_SetString(PyExc_BufferError, "an array interface without a tuple for shape or strides");
    return -1;
  }
  for (Py_ssize_t k = 0; k < size; ++k) {
    values[k] = PyLong_AsLongLong(PyTuple_GetItem(tuple.ptr(), k));
    if (values[k] == -1 && PyErr_Occurred() != nullptr) return -1;
  }
  return static_cast<int>(size);
}

nb::object entry(const nb::object& dict, const char* key) {
  nb::object found = nb::steal(PyMapping_GetItemString(dict.ptr(), key));
  if (!found.is_valid()) PyErr_Clear();
  return found;
}

bool refuse(const char* text) {
  if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_BufferError, text);
  return false;
}

bool read_layout(const nb::object& dict, ArrayInfo& info) {
  nb::object typestr = entry(dict, "typestr"), shape = entry(dict, "shape");
  nb::object strides = entry(dict, "strides"), data = entry(dict, "data");
  std::string text;
  if (!typestr.is_valid() || !nb::try_cast(typestr, text) || text.size() < 3) {
    return refuse("an array interface without a typestr");
  }
  info.dtype = dtype_from_typestr(text, info.view.item_bytes);
  if (!shape.is_valid()) return refuse("an array interface without a shape");
  info.view.ndim = read_integers(shape, info.view.shape);
  if (info.view.ndim < 0) return false;
  if (!has_countable_bytes(info.view)) return refuse(kNoMemory);
  info.view.set_contiguous();
  if (strides.is_valid() && !strides.is_none()) {
    int count = read_integers(strides, info.view.stride_bytes);
    if (count < 0) return false;
    if (count != info.view.ndim)
      return refuse("an array interface with other strides than extents");
  }
  if (!data.is_valid() || PyTuple_Check(data.ptr()) == 0 || PyTuple_Size(data.ptr()) != 2) {
    return refuse("an array interface without an address");
  }
  info.view.data = reinterpret_cast<void*>(PyLong_AsSize_t(PyTuple_GetItem(data.ptr(), 0)));
  info.is_read_only = PyObject_IsTrue(PyTuple_GetItem(data.ptr(), 1)) != 0;
  if (PyErr_Occurred() != nullptr) return false;
  return describes_memory(info.view) || refuse(kNoMemory);
}

/// The optional stream of version 3: 1 and 2 are the default streams, 0 is invalid.
bool read_stream(const nb::object& dict, ArrayInfo& info) {
  nb::object stream = entry(dict, "stream");
  if (!stream.is_valid() || stream.is_none()) return true;
  info.stream = PyLong_AsSize_t(stream.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return refuse("a __cuda_array_interface__ whose stream is no handle");
  }
  return info.stream != 0 || refuse("a __cuda_array_interface__ whose stream is 0");
}

bool share_memory(const nb::object& one, const nb::object& other) {
  ArrayInfo first, second;
  Keeper kept = keep_buffer(one.ptr(), first), kept_too = keep_buffer(other.ptr(), second);
  return kept != nullptr && kept_too != nullptr && first.view.data == second.view.data;
}

}  // namespace

bool read_cuda_interface(PyObject* object, Consumer consumer, ArrayInfo& info) {
  nb::object dict = nb::steal(PyObject_GetAttrString(object, "__cuda_array_interface__"));
  if (!dict.is_valid()) return false;
  if (PyDict_Check(dict.ptr()) == 0) return refuse("a __cuda_array_interface__ that is no dict");
  nb::object mask = entry(dict, "mask");
  if (mask.is_valid() && !mask.is_none()) return refuse("a masked array");
  info.has_lazy_sign = false;
  if (!read_stream(dict, info) || !read_layout(dict, info)) return false;
  bool is_empty = info.view.numel() == 0;
  int ordinal = is_empty ? std::max(consumer.ordinal, 0) : cuda::ordinal_of(info.view.data);
  info.device = {kDLCUDA, ordinal};
  return ordinal >= 0 || refuse("a __cuda_array_interface__ of no memory of CUDA");
}

nb::object numpy_view_of(PyObject* object, bool writable) {
  nb::object numpy = nb::steal(PyImport_ImportModule("numpy"));
  if (!numpy.is_valid()) return {};
  auto ask = [&] { return nb::steal(PyObject_CallMethod(numpy.ptr(), "asarray", "O", object)); };
  nb::object array = ask();
  if (!array.is_valid() || !writable) return array;
  // A copy has another address the second time, since the first is still in use.
  nb::object again = ask();
  if (!again.is_valid()) return {};
  if (share_memory(array, again)) return array;
  if (PyErr_Occurred() == nullptr) {
    PyErr_SetString(PyExc_BufferError, "NumPy sees a copy of its elements, not its memory");
  }
  return {};
}

nb::object interface_dict(const ArrayInfo& info) {
  if (info.dtype < 0 || info.dtype == static_cast<int>(DType::kBFloat16)) return nb::none();
  const DTypeTraits& known = traits_of(static_cast<DType>(info.dtype));
  std::string typestr = known.size_bytes == 1 ? "|" : "<";
  typestr += kKinds[static_cast<size_t>(known.kind)];
  typestr += std::to_string(known.size_bytes);
  nb::dict dict;
  dict["version"] = 3;
  dict["typestr"] = typestr;
  dict["shape"] = extents_of(info.view);
  dict["strides"] = strides_of(info.view);
  dict["data"] = nb::make_tuple(reinterpret_cast<uintptr_t>(info.view.data), info.is_read_only);
  return dict;
}

}  // namespace kernelcore::bind
