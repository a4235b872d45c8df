// Native errors become classes of kernelcore.base.errors here, and only here.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <exception>
#include <new>
#include <utility>

#include "bind/released_gil.h"
#include "core/error.h"

namespace kernelcore::bind {

/// Sets the Python classes that errors are raised as, by ErrorKind.
void set_error_types(std::array<nanobind::object, kErrorKinds> classes);

/// Sets the Python error that stands for `error`.
void set_python_error(const Error& error);

/// The result of `function`, or `failed` with a Python error set: C callers expect no exceptions.
/// A thread that the interpreter unwinds at its end waits here.
template <class Function, class Result>
Result guarded(Function&& function, Result failed) noexcept {
  try {
    return function();
  } catch (const Error& error) {
    set_python_error(error);
  } catch (nanobind::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    set_python_error(Error(ErrorKind::kInternal, error.what()));
  } catch (...) {
    wait_for_exit();
  }
  return failed;
}

/// As `guarded`, for functions that return an object.
template <class Function>
PyObject* call_guarded(Function&& function) noexcept {
  return guarded(std::forward<Function>(function), static_cast<PyObject*>(nullptr));
}

/// Makes nanobind functions raise Errors as Python errors.
void register_error_translator();

}  // namespace kernelcore::bind
