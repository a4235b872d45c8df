#include "bind/argument.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <limits>

#include "core/error.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

[[noreturn]] void fail(const Signature& signature, size_t index, const std::string& expected,
                       const std::string& found, const std::string& help) {
  throw signature.argument_error(index, "expected " + expected + ", found " + found, help);
}

std::string text_of(nb::handle object) {
  nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text.is_valid()) {
    PyErr_Clear();
    return "?";
  }
  return nb::cast<std::string>(text);
}

std::string type_name(PyObject* object) {
  nb::object name =
      nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__"));
  if (!name.is_valid()) {
    PyErr_Clear();
    return "object";
  }
  return text_of(name);
}

// The dtype as the array's own library prints it, less the library's name.
std::string dtype_text(PyObject* object, int dtype) {
  nb::object attribute = nb::steal(PyObject_GetAttrString(object, "dtype"));
  if (!attribute.is_valid()) {
    PyErr_Clear();
    return dtype >= 0 ? name_of(static_cast<DType>(dtype)) : "another dtype";
  }
  std::string text = text_of(attribute);
  size_t dot = text.rfind('.');
  return dot == std::string::npos ? text : text.substr(dot + 1);
}

bool is_torch_like(PyObject* object) {
  return exchange_api_of(reinterpret_cast<PyObject*>(Py_TYPE(object))) != nullptr;
}

std::string expected_array(const Relocation& r) {
  return "array of " + describe_array(name_of(r.dtype), r.ndim);
}

std::string conversion_help(PyObject* object, const Relocation& r, const ArrayInfo& info) {
  std::string wanted = name_of(r.dtype);
  std::string help = "convert it with " + (is_torch_like(object) ? ".to(torch." + wanted + ")"
                                                                 : ".astype('" + wanted + "')");
  if (info.dtype < 0) return help;
  return help + ", or annotate the parameter as an array of " +
         name_of(static_cast<DType>(info.dtype));
}

double float_value(const Signature& signature, size_t index, PyObject* object) {
  // A complex number of NumPy converts, but loses its imaginary part.
  double value = PyComplex_Check(object) != 0 ? -1.0 : PyFloat_AsDouble(object);
  if (value == -1.0 && (PyErr_Occurred() != nullptr || PyComplex_Check(object) != 0)) {
    bool is_refusal = PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_TypeError) != 0 ||
                      PyErr_ExceptionMatches(PyExc_ValueError) != 0 ||
                      PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
    if (!is_refusal) throw nb::python_error();
    PyErr_Clear();
    fail(signature, index,
         std::string("a ") + name_of(signature.relocations[index].dtype) + " value",
         type_name(object), "pass a Python float or a scalar of NumPy");
  }
  return value;
}

int64_t int_value(const Signature& signature, size_t index, PyObject* object) {
  DType dtype = signature.relocations[index].dtype;
  std::string expected = std::string("an ") + name_of(dtype) + " value";
  nb::object number = nb::steal(PyNumber_Index(object));
  if (!number.is_valid()) {
    PyErr_Clear();
    fail(signature, index, expected, type_name(object),
         "pass a Python int, or annotate the parameter as a float");
  }
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  using Int32 = std::numeric_limits<int32_t>;
  if (overflow != 0 || (dtype == DType::kInt32 && (value < Int32::min() || value > Int32::max()))) {
    fail(signature, index, expected, text_of(number) + ", which is out of its range",
         dtype == DType::kInt32 ? "annotate the parameter as kc.int64" : "pass a smaller number");
  }
  return value;
}

bool bool_value(const Signature& signature, size_t index, PyObject* object) {
  if (object == Py_True) return true;
  if (object == Py_False) return false;
  if (PyLong_Check(object) == 0 && PyFloat_Check(object) == 0 && dtype_text(object, -1) == "bool") {
    int truth = PyObject_IsTrue(object);
    if (truth >= 0) return truth != 0;
    PyErr_Clear();
  }
  fail(signature, index, "a bool value", type_name(object), "pass True or False");
}

template <class T>
void store(std::byte* target, T value) {
  std::memcpy(target, &value, sizeof value);
}

}  // namespace

std::string take_python_error() {
  nb::python_error error;
  std::string text = text_of(error.value());
  return type_name(error.value().ptr()) + ": " + text.substr(0, text.find('\n'));
}

void check_array(const Signature& signature, size_t index, const ArrayInfo& info,
                 PyObject* object) {
  const Relocation& r = signature.relocations[index];
  if (info.dtype != static_cast<int>(r.dtype) || info.view.ndim != r.ndim) [[unlikely]] {
    std::string dtype = dtype_text(object, info.dtype);
    std::string help = info.dtype != static_cast<int>(r.dtype)
                           ? conversion_help(object, r, info)
                           : "reshape it, or annotate the parameter with its number of dimensions";
    fail(signature, index, expected_array(r), describe_array(dtype, info.view.ndim), help);
  }
  if (info.device.device_type != kDLCPU) [[unlikely]] {
    nb::object device = nb::steal(PyObject_GetAttrString(object, "device"));
    if (!device.is_valid()) PyErr_Clear();
    fail(signature, index, expected_array(r) + " in CPU memory",
         "memory of device " + (device.is_valid() ? text_of(device) : std::string("other")),
         "copy the array to the CPU first");
  }
  if (info.is_read_only && r.is_written()) [[unlikely]] {
    fail(signature, index, "a writable " + expected_array(r), "a read-only one",
         "the kernel writes to this argument: pass an array that may be written, "
         "a NumPy copy for instance");
  }
  if (info.has_lazy_sign) [[unlikely]] {
    fail(signature, index, expected_array(r), "a view with a pending negation",
         "call .resolve_neg() on it first");
  }
  if (info.view.data == nullptr && info.view.numel() != 0) [[unlikely]] {
    fail(signature, index, expected_array(r), "a " + type_name(object) + " without memory",
         "pass an array that holds data");
  }
  if (!is_aligned(info.view, size_bytes(r.dtype))) [[unlikely]] {
    fail(signature, index, expected_array(r) + " aligned to its elements",
         "a view into packed records", "copy it into an array of its own");
  }
  check_extents(info.view, [&](const std::string& problem, const std::string& help) {
    return signature.argument_error(index, problem, help);
  });
}

void read_array_argument(const Signature& signature, size_t index, PyObject* object,
                         ArrayView& view, Leases& leases) {
  const Relocation& r = signature.relocations[index];
  ArrayInfo info;
  switch (read_array(object, r.is_written(), info, leases)) {
    case ReadStatus::kOk:
      break;
    case ReadStatus::kNotAnArray:
      fail(signature, index, expected_array(r), type_name(object),
           "pass a NumPy array, a torch tensor, a JAX array or another DLPack array");
    case ReadStatus::kRefused:
      fail(signature, index, expected_array(r),
           type_name(object) + " that cannot be read (" + take_python_error() + ")",
           "pass an array whose memory the CPU can reach");
  }
  check_array(signature, index, info, object);
  view = info.view;
}

void read_value_argument(const Signature& signature, size_t index, PyObject* object,
                         std::byte* target) {
  switch (signature.relocations[index].dtype) {
    case DType::kBool:
      store(target, bool_value(signature, index, object));
      break;
    case DType::kInt32:
      store(target, static_cast<int32_t>(int_value(signature, index, object)));
      break;
    case DType::kInt64:
      store(target, int_value(signature, index, object));
      break;
    case DType::kFloat32:
      store(target, static_cast<float>(float_value(signature, index, object)));
      break;
    case DType::kFloat64:
      store(target, float_value(signature, index, object));
      break;
  }
}

}  // namespace kernelcore::bind
