#include "bind/array/builtin_call.h"

namespace nb = nanobind;

namespace kernelcore::bind {

void drop_exception() {
  if (PyErr_Occurred() == nullptr) return;
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw nb::python_error();
  PyErr_Clear();
}

bool is_class_of(PyTypeObject* type, const char* module_name, const char* name) {
  nb::object key = nb::steal(PyUnicode_FromString(module_name));
  nb::object module = nb::steal(PyImport_GetModule(key.ptr()));
  nb::object found =
      module.is_valid() ? nb::steal(PyObject_GetAttrString(module.ptr(), name)) : module;
  if (!found.is_valid()) PyErr_Clear();
  return found.ptr() == reinterpret_cast<PyObject*>(type);
}

BuiltinCall BuiltinCall::of_nothing(PyObject* function) {
  BuiltinCall call;
  call.function_ = Py_XNewRef(function);
  bool is_direct = function != nullptr && PyCFunction_CheckExact(function) != 0 &&
                   PyCFunction_GetFlags(function) == METH_NOARGS;
  if (!is_direct) return call;
  call.direct_ = PyCFunction_GetFunction(function);
  call.owner_ = PyCFunction_GetSelf(function);
  return call;
}

}  // namespace kernelcore::bind
