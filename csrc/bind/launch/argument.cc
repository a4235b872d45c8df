#include "bind/launch/argument.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <string_view>

#include "bind/array/array_memory.h"
#include "core/error.h"
#include "core/memory/aliasing.h"
#include "core/scalar.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

[[noreturn]] void fail(const LaunchDescriptor& descriptor, size_t index,
                       const std::string& expected, const std::string& found,
                       const std::string& help) {
  throw descriptor.argument_error(index, "expected " + expected + ", found " + found, help);
}

std::string text_of(nb::handle object) {
  nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text.is_valid()) {
    PyErr_Clear();
    return "?";
  }
  return nb::cast<std::string>(text);
}

// The dtype as the array's own library prints it, without the library's name.
std::string dtype_text(PyObject* object, int dtype) {
  nb::object attribute = nb::steal(PyObject_GetAttrString(object, "dtype"));
  if (!attribute.is_valid()) {
    PyErr_Clear();
    return dtype >= 0 ? name_of(static_cast<DType>(dtype)) : "another dtype";
  }
  // Classes of composites and structs are named by their type in the kernel language.
  nb::object kernel_type = nb::steal(PyObject_GetAttrString(attribute.ptr(), "kernel_type"));
  if (kernel_type.is_valid()) return text_of(kernel_type);
  PyErr_Clear();
  std::string text = text_of(attribute);
  size_t dot = text.rfind('.');
  return dot == std::string::npos ? text : text.substr(dot + 1);
}

/// Dimensions as the array's library counts them: data arrays exclude those of components.
int ndim_of(PyObject* object, const ArrayInfo& info) {
  if (!is_array_memory(Py_TYPE(object))) return info.view.ndim;
  nb::object ndim = nb::steal(PyObject_GetAttrString(object, "ndim"));
  if (!ndim.is_valid()) PyErr_Clear();
  return ndim.is_valid() ? nb::cast<int>(ndim) : info.view.ndim;
}

bool is_torch_like(PyObject* object) {
  return PyObject_HasAttrString(object, "is_neg") != 0;
}

/// How a parameter like `slot` is annotated for elements of `dtype`; as `annotation_text` in
/// Python.
std::string annotation_text(const ParameterSlot& slot, DType dtype) {
  std::string name = name_of(dtype);
  if (slot.ndim == 0) return "as kc." + name;
  if (slot.component_ndim() == 0) return "as an array of " + name;
  bool is_vector = slot.component_ndim() == 1 && slot.components[0] <= 4;
  std::string vector = "kc.vec" + std::to_string(slot.components[0]) + "d";
  return "with elements of " + name + " components" +
         (is_vector && dtype == DType::kFloat64 ? ", such as " + vector : "");
}

std::string conversion_help(PyObject* object, const ParameterSlot& slot, const ArrayInfo& info) {
  std::string wanted = name_of(slot.dtype);
  if (is_array_memory(Py_TYPE(object))) {
    return "convert it with kc.array(data, dtype=...), or annotate the parameter as it is";
  }
  std::string help = "convert it with " + (is_torch_like(object) ? ".to(torch." + wanted + ")"
                                                                 : ".astype('" + wanted + "')");
  if (info.dtype < 0) return help;
  return help + ", or annotate the parameter " +
         annotation_text(slot, static_cast<DType>(info.dtype));
}

double float_value(const LaunchDescriptor& descriptor, size_t index, PyObject* object) {
  if (PyFloat_CheckExact(object) != 0) [[likely]]
    return PyFloat_AsDouble(object);
  double value = PyFloat_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    bool is_refusal = PyErr_ExceptionMatches(PyExc_TypeError) != 0 ||
                      PyErr_ExceptionMatches(PyExc_ValueError) != 0 ||
                      PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
    if (!is_refusal) throw nb::python_error();
    PyErr_Clear();
    fail(descriptor, index, value_text(descriptor.slots[index].dtype), type_name(object),
         "pass a Python float or a scalar of NumPy");
  }
  return value;
}

std::string integer_help(DType dtype) {
  if (size_bytes(dtype) == 8) return "pass a smaller number";
  bool is_signed = traits_of(dtype).kind == ScalarKind::kInt;
  return std::string("annotate the parameter as kc.") + (is_signed ? "int64" : "uint64");
}

// The value modulo 2**64; the field takes its low bits.
uint64_t integer_value(const LaunchDescriptor& descriptor, size_t index, PyObject* object) {
  DType dtype = descriptor.slots[index].dtype;
  bool is_signed = traits_of(dtype).kind == ScalarKind::kInt;
  nb::object number = nb::steal(PyNumber_Index(object));
  if (!number.is_valid()) {
    PyErr_Clear();
    fail(descriptor, index, value_text(dtype), type_name(object),
         "pass a Python int, or annotate the parameter as a float");
  }
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0 && holds(dtype, value)) return static_cast<uint64_t>(value);
  if (overflow > 0 && dtype == DType::kUInt64) {
    uint64_t wide = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred() == nullptr) return wide;
    PyErr_Clear();
  }
  std::string found = text_of(number) + ", which is out of its range";
  fail(descriptor, index, value_text(dtype), found,
       !is_signed && (overflow < 0 || value < 0) ? "annotate the parameter as a signed integer"
                                                 : integer_help(dtype));
}

/// Whether `text` names a dtype of integers or of truth values.
bool is_integer_text(std::string_view text) {
  return text == "bool" || text.starts_with("int") || text.starts_with("uint");
}

bool bool_value(const LaunchDescriptor& descriptor, size_t index, PyObject* object) {
  if (object == Py_True) return true;
  if (object == Py_False) return false;
  // Integers and flags are true unless zero, as in conditions of kernels.
  bool is_integer = PyLong_Check(object) != 0 ||
                    (PyFloat_Check(object) == 0 && is_integer_text(dtype_text(object, -1)));
  if (is_integer) {
    int truth = PyObject_IsTrue(object);
    if (truth >= 0) return truth != 0;
    PyErr_Clear();
  }
  fail(descriptor, index, "a bool value", type_name(object), "pass True or False");
}

/// The NumPy scalar of a data array without dimensions; invalid for other objects.
nb::object element_of(PyObject* object) {
  if (!is_array_memory(Py_TYPE(object))) return nb::object();
  const ArrayMemory* memory = array_memory_of(object);
  if (memory == nullptr || memory->view.ndim != 0) return nb::object();
  nb::object element = nb::steal(PyObject_CallMethod(object, "numpy", nullptr));
  if (!element.is_valid()) throw nb::python_error();
  return element;
}

/// Whether NumPy converts `object`, a scalar or an array without dimensions, to a number that it is
/// not: without an imaginary part or a unit, from text, or in place of an element that is masked.
bool is_changed_by_conversion(PyObject* object) {
  nb::object kind;
  nb::object dtype = nb::steal(PyObject_GetAttrString(object, "dtype"));
  if (dtype.is_valid()) kind = nb::steal(PyObject_GetAttrString(dtype.ptr(), "kind"));
  PyErr_Clear();
  if (!kind.is_valid() || !nb::isinstance<nb::str>(kind)) return false;
  bool is_real = std::string_view("cmMSU").find(text_of(kind)) == std::string_view::npos;
  return !is_real || is_masked(object);
}

}  // namespace

std::string type_name(PyObject* object) {
  nb::object name =
      nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__"));
  if (!name.is_valid()) {
    PyErr_Clear();
    return "object";
  }
  return text_of(name);
}

std::string take_python_error() {
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw nb::python_error();
  nb::python_error error;
  std::string text = text_of(error.value());
  return type_name(error.value().ptr()) + ": " + text.substr(0, text.find('\n'));
}

namespace {

[[noreturn]] void refuse_elsewhere(const LaunchDescriptor& descriptor, size_t index,
                                   const ArrayInfo& info, PyObject* object, int ordinal) {
  std::string here = ordinal < 0 ? "cpu" : "cuda:" + std::to_string(ordinal);
  nb::object device = nb::steal(PyObject_GetAttrString(object, "device"));
  if (!device.is_valid()) PyErr_Clear();
  std::string there = info.is_on_host()   ? "the CPU"
                      : device.is_valid() ? "device " + text_of(device)
                      : info.is_on_cuda() ? "device cuda:" + std::to_string(info.device.device_id)
                                          : "another device";
  Error error = descriptor.argument_error(
      index,
      "expected " + describe_array(descriptor.slots[index]) +
          (ordinal < 0 ? " in CPU memory" : " in memory of device " + here) + ", found memory of " +
          there,
      ordinal < 0 ? "copy the array to the CPU first"
                  : "copy the array to " + here + " first, or launch where the arrays are");
  throw Error(ErrorKind::kElsewhere, error.what());
}

}  // namespace

void require_lent(const LaunchDescriptor& descriptor, size_t index, const Lender* lender) {
  if (lender == nullptr || lender->still_lends()) [[likely]]
    return;
  fail(descriptor, index, describe_array(descriptor.slots[index]), lender->loss(),
       lender->remedy());
}

void check_array(const LaunchDescriptor& descriptor, size_t index, const ArrayInfo& info,
                 PyObject* object, int ordinal) {
  const ParameterSlot& slot = descriptor.slots[index];
  bool is_near = ordinal < 0 ? info.is_on_host() : info.is_reachable_from(ordinal);
  if (!is_near) [[unlikely]] {
    refuse_elsewhere(descriptor, index, info, object, ordinal);
  }
  if (info.dtype != static_cast<int>(slot.dtype) || info.view.ndim != slot.ndim) [[unlikely]] {
    // A data array has its components in its dtype, so reshaping it does not help.
    bool is_wrong_rank =
        info.dtype == static_cast<int>(slot.dtype) && !is_array_memory(Py_TYPE(object));
    std::string help = !is_wrong_rank ? conversion_help(object, slot, info)
                       : slot.ndim == 0
                           ? "pass one without dimensions, such as x.reshape(()) of one element"
                           : "reshape it, or annotate the parameter with its number of dimensions";
    // The shape says more than the number of dimensions.
    bool shows_shape =
        is_wrong_rank && slot.component_ndim() != 0 && info.view.ndim <= kMaxArrayDims;
    std::string found = shows_shape
                            ? "shape " + shape_text(info.view)
                            : describe_array(dtype_text(object, info.dtype), ndim_of(object, info));
    fail(descriptor, index, describe_array(slot), found, help);
  }
  require_lent(descriptor, index, info.lender);
  if (info.is_read_only && slot.is_written()) [[unlikely]] {
    fail(descriptor, index, "a writable " + describe_array(slot), "a read-only one",
         "the kernel writes to this argument: pass an array that may be written, "
         "a NumPy copy for instance");
  }
  if (info.has_lazy_sign) [[unlikely]] {
    fail(descriptor, index, describe_array(slot), "a view with a pending negation",
         "call .resolve_neg() on it first");
  }
  if (info.is_cut) [[unlikely]] {
    fail(descriptor, index, describe_array(slot),
         "a " + type_name(object) + " whose storage ends before its last element",
         "resize the storage, or pass the part of the tensor that is left");
  }
  if (info.view.data == nullptr && info.view.numel() != 0) [[unlikely]] {
    fail(descriptor, index, describe_array(slot), "a " + type_name(object) + " without memory",
         "pass an array that holds data");
  }
  if (!info.view.is_aligned()) [[unlikely]] {
    fail(descriptor, index, describe_array(slot) + " aligned to its elements",
         "a " + type_name(object) +
             " at other addresses, such as a view into packed records or bytes",
         "copy it into an array of its own");
  }
  descriptor.check_shape(index, info.view);
}

namespace {

/// Throws an argument Error unless the array could be read.
void check_status(const LaunchDescriptor& descriptor, size_t index, PyObject* object,
                  ReadStatus status) {
  if (status == ReadStatus::kOk) [[likely]]
    return;
  const ParameterSlot& slot = descriptor.slots[index];
  if (status == ReadStatus::kNotAnArray) {
    fail(descriptor, index, describe_array(slot), type_name(object),
         "pass a NumPy array, a torch tensor, a JAX array or another DLPack array");
  }
  std::string text = take_python_error();
  fail(descriptor, index, describe_array(slot),
       type_name(object) + " that cannot be read (" + text + ")",
       text.find("masked array") != std::string::npos
           ? "the elements that are masked are none: pass x.filled(value), or x.data for all"
           : "pass an array whose memory the CPU can reach");
}

/// Throws an argument Error if the kernel stores to an array that repeats elements.
void check_distinct(const LaunchDescriptor& descriptor, size_t index, const ArrayView& view) {
  if (!descriptor.slots[index].is_written()) return;
  bool is_stored = std::ranges::find(descriptor.stored, index) != descriptor.stored.end();
  if (is_stored && repeats_elements(view)) [[unlikely]] {
    fail(descriptor, index,
         "a writable " + describe_array(descriptor.slots[index]) + " and an element per index",
         "one of which several indices reach the same: shape " + shape_text(view) +
             ", strides of " + tuple_text(view.stride_bytes, view.ndim) + " bytes",
         "the kernel stores to this argument: pass a copy, .contiguous() or .copy()");
  }
}

}  // namespace

const ArrayInfo& read_array_argument(const LaunchDescriptor& descriptor, size_t index,
                                     PyObject* object, ArrayInfo& found, Keeper& keeper,
                                     Consumer consumer, bool is_kept) {
  // No Python code runs before `info` is used.
  const ArrayInfo* info = is_kept ? nullptr : known_info(object);
  if (info == nullptr) {
    Access access = is_kept                                ? Access::kKeep
                    : descriptor.slots[index].is_written() ? Access::kWrite
                                                           : Access::kRead;
    check_status(descriptor, index, object, read_array(object, access, found, keeper, consumer));
    info = &found;
  }
  check_array(descriptor, index, *info, object, consumer.ordinal);
  check_distinct(descriptor, index, info->view);
  return *info;
}

void read_value_argument(const LaunchDescriptor& descriptor, size_t index, PyObject* object,
                         std::byte* target) {
  DType dtype = descriptor.slots[index].dtype;
  bool is_number = PyFloat_Check(object) != 0 || PyLong_Check(object) != 0;
  nb::object element = is_number ? nb::object() : element_of(object);
  if (element.is_valid()) object = element.ptr();
  if (!is_number && is_changed_by_conversion(object)) {
    fail(descriptor, index, value_text(dtype), type_name(object),
         "pass a Python number or a scalar of NumPy");
  }
  switch (traits_of(dtype).kind) {
    case ScalarKind::kBool:
      store_integer(dtype, bool_value(descriptor, index, object) ? 1 : 0, target);
      break;
    case ScalarKind::kInt:
    case ScalarKind::kUInt:
      store_integer(dtype, integer_value(descriptor, index, object), target);
      break;
    case ScalarKind::kFloat:
      store_float(dtype, float_value(descriptor, index, object), target);
      break;
  }
}

}  // namespace kernelcore::bind
