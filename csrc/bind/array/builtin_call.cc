#include "bind/array/builtin_call.h"

namespace nb = nanobind;

namespace kernelcore::bind {

bool is_class_of(PyTypeObject* type, const char* module_name, const char* name) {
  nb::object key = nb::steal(PyUnicode_FromString(module_name));
  nb::object module = nb::steal(PyImport_GetModule(key.ptr()));
  nb::object found =
      module.is_valid() ? nb::steal(PyObject_GetAttrString(module.ptr(), name)) : module;
  if (!found.is_valid()) PyErr_Clear();
  return found.ptr() == reinterpret_cast<PyObject*>(type);
}

void BuiltinCall::find_direct(PyObject* builtin) {
  if (PyCFunction_CheckExact(builtin) == 0 || PyCFunction_GetFlags(builtin) != METH_NOARGS) return;
  direct_ = PyCFunction_GetFunction(builtin);
}

BuiltinCall BuiltinCall::of_nothing(PyObject* function) {
  BuiltinCall call;
  call.function_ = Py_XNewRef(function);
  if (function == nullptr) return call;
  call.find_direct(function);
  if (call.direct_ != nullptr) call.owner_ = PyCFunction_GetSelf(function);
  return call;
}

BuiltinCall BuiltinCall::of_method(PyObject* object, const char* name) {
  BuiltinCall call;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  call.function_ = PyObject_GetAttrString(type, name);
  nb::object bound = nb::steal(PyObject_GetAttrString(object, name));
  if (call.function_ == nullptr || !bound.is_valid()) PyErr_Clear();
  // A method in C is bound to its object; anything else may do what it wants.
  if (bound.is_valid() && PyCFunction_CheckExact(bound.ptr()) != 0 &&
      PyCFunction_GetSelf(bound.ptr()) == object) {
    call.find_direct(bound.ptr());
  }
  return call;
}

}  // namespace kernelcore::bind
