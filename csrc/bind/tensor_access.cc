#include "bind/tensor_access.h"

#include <cstring>

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

/// Whether `type` is the class `name` of `module`, if that is imported.
bool is_class_of(PyTypeObject* type, const char* module_name, const char* name) {
  nb::object key = nb::steal(PyUnicode_FromString(module_name));
  nb::object module = nb::steal(PyImport_GetModule(key.ptr()));
  nb::object found =
      module.is_valid() ? nb::steal(PyObject_GetAttrString(module.ptr(), name)) : module;
  if (!found.is_valid()) PyErr_Clear();
  return found.ptr() == reinterpret_cast<PyObject*>(type);
}

/// Whether the word behind the head of `object` is the address that torch gives for its tensor.
bool holds_tensor_in_place(PyObject* object) {
  nb::object number = nb::steal(PyObject_GetAttrString(object, "_cdata"));
  void* expected = number.is_valid() ? PyLong_AsVoidPtr(number.ptr()) : nullptr;
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  void* found = nullptr;
  std::memcpy(&found, object + 1, sizeof(found));
  return expected != nullptr && found == expected;
}

}  // namespace

TensorAccess TensorAccess::of(PyObject* object, const DLPackExchangeAPI& api) {
  TensorAccess access;
  PyTypeObject* type = Py_TYPE(object);
  bool is_known =
      is_class_of(type, "torch", "Tensor") || is_class_of(type, "torch.nn.parameter", "Parameter");
  if (!is_known || !holds_tensor_in_place(object)) return access;
  static torch::TensorFunctions functions;
  static bool has_functions =
      functions.find(reinterpret_cast<const void*>(api.dltensor_from_py_object_no_sync));
  if (has_functions) access.functions_ = &functions;
  return access;
}

}  // namespace kernelcore::bind
