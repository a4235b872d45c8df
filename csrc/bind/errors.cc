#include "bind/errors.h"

namespace kernelcore::bind {
namespace {

// Owned by the module for the life of the process; null until set_error_types.
PyObject* g_argument = nullptr;
PyObject* g_elsewhere = nullptr;
PyObject* g_memory = nullptr;
PyObject* g_device = nullptr;
PyObject* g_internal = nullptr;
PyObject* g_assertion = nullptr;
PyObject* g_index = nullptr;

void replace(PyObject*& held, nanobind::object value) {
  PyObject* old = held;
  held = value.release().ptr();
  Py_XDECREF(old);
}

PyObject* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kArgument:
      return g_argument != nullptr ? g_argument : PyExc_TypeError;
    case ErrorKind::kElsewhere:
      return g_elsewhere != nullptr ? g_elsewhere : PyExc_TypeError;
    case ErrorKind::kDevice:
      return g_device != nullptr ? g_device : PyExc_OSError;
    case ErrorKind::kMemory:
      return g_memory != nullptr ? g_memory : PyExc_MemoryError;
    case ErrorKind::kAssertion:
      return g_assertion != nullptr ? g_assertion : PyExc_AssertionError;
    case ErrorKind::kIndex:
      return g_index != nullptr ? g_index : PyExc_IndexError;
    case ErrorKind::kUnknownKernel:
    case ErrorKind::kInternal:
      break;
  }
  return g_internal != nullptr ? g_internal : PyExc_SystemError;
}

}  // namespace

void set_error_types(nanobind::object argument, nanobind::object elsewhere, nanobind::object memory,
                     nanobind::object device, nanobind::object internal, nanobind::object assertion,
                     nanobind::object index) {
  replace(g_argument, std::move(argument));
  replace(g_elsewhere, std::move(elsewhere));
  replace(g_memory, std::move(memory));
  replace(g_device, std::move(device));
  replace(g_internal, std::move(internal));
  replace(g_assertion, std::move(assertion));
  replace(g_index, std::move(index));
}

void set_python_error(const Error& error) {
  PyErr_SetString(class_of(error.kind()), error.what());
}

void register_error_translator() {
  nanobind::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      set_python_error(error);
    }
  });
}

}  // namespace kernelcore::bind
