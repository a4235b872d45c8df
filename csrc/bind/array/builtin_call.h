// Calls of Python functions that other libraries implement in C.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/released_gil.h"

namespace kernelcore::bind {

/// Calls `function` with one argument, or with none; invalid with an error set if it raises.
///
/// The stable interface of Python has no PyObject_CallOneArg.
inline nanobind::object call_function(PyObject* function, PyObject* object) {
  PyObject* arguments[] = {nullptr, object};
  size_t count = (object == nullptr ? 0 : 1) | PY_VECTORCALL_ARGUMENTS_OFFSET;
  return nanobind::steal(
      held_at_exit([&] { return PyObject_Vectorcall(function, arguments + 1, count, nullptr); }));
}

/// Clears the Python error, if any; KeyboardInterrupt and others that no program handles are
/// thrown.
void drop_exception();

/// Whether `type` is the class `name` of a module that is imported.
bool is_class_of(PyTypeObject* type, const char* module_name, const char* name);

/// A Python function without parameters, never released. The C function of a built-in is called
/// directly, without the overhead of a Python call.
class BuiltinCall {
 public:
  BuiltinCall() = default;

  /// Wraps `function`, which may be null.
  static BuiltinCall of_nothing(PyObject* function);

  /// The result of the function; invalid with an error set.
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
