#include "bind/errors.h"

namespace kernelcore::bind {
namespace {

// By ErrorKind; owned by the module for the life of the process, null until set_error_types.
std::array<PyObject*, kErrorKinds> g_classes{};

}  // namespace

void set_error_types(std::array<nanobind::object, kErrorKinds> classes) {
  for (size_t k = 0; k < kErrorKinds; ++k) {
    Py_XDECREF(std::exchange(g_classes[k], classes[k].release().ptr()));
  }
}

void set_python_error(const Error& error) {
  // Python's handler of the signal raises; left pending, it would raise a second time.
  if (error.kind() == ErrorKind::kInterrupted && PyErr_CheckSignals() != 0) return;
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
