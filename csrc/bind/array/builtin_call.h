// Classes, and calls of functions, that another library's C code has given to Python.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

/// What `function` returns of one object, or of none; invalid with an error set where it raises.
///
/// The stable interface of Python has no PyObject_CallOneArg.
inline nanobind::object call_function(PyObject* function, PyObject* object) {
  PyObject* arguments[] = {nullptr, object};
  size_t count = (object == nullptr ? 0 : 1) | PY_VECTORCALL_ARGUMENTS_OFFSET;
  return nanobind::steal(PyObject_Vectorcall(function, arguments + 1, count, nullptr));
}

/// Whether `type` is the class `name` of a module, if that is imported.
bool is_class_of(PyTypeObject* type, const char* module_name, const char* name);

/// A Python function without parameters, held for ever. Of a built-in one the C function is called,
/// past what Python does around calls.
class BuiltinCall {
 public:
  BuiltinCall() = default;

  /// `function`, which takes nothing; it may be null.
  static BuiltinCall of_nothing(PyObject* function);

  bool is_valid() const { return function_ != nullptr; }

  /// What the function returns, or invalid with an error set.
  nanobind::object operator()() const {
    if (direct_ != nullptr) return nanobind::steal(direct_(owner_, nullptr));
    return call_function(function_, nullptr);
  }

 private:
  PyObject* function_ = nullptr;
  PyObject* owner_ = nullptr;
  PyCFunction direct_ = nullptr;
};

}  // namespace kernelcore::bind
