#include "bind/errors.h"

#include <array>

namespace kernelcore::bind {
namespace {

// By ErrorKind; owned by the module for the life of the process, null until set_error_types.
std::array<PyObject*, kErrorKinds> g_classes{};

}  // namespace

void set_error_types(const nanobind::tuple& classes) {
  if (classes.size() != g_classes.size())
    throw nanobind::value_error("set_error_types: one a kind");
  for (size_t k = 0; k < g_classes.size(); ++k) {
    Py_XDECREF(std::exchange(g_classes[k], nanobind::object(classes[k]).release().ptr()));
  }
}

void set_python_error(const Error& error) {
  PyObject* known = g_classes[static_cast<size_t>(error.kind())];
  PyErr_SetString(known != nullptr ? known : PyExc_SystemError, error.what());
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
