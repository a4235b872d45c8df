// Python objects of C++ state: what the garbage collector sees of it, and functions that have it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>

namespace kernelcore::bind {

/// Slots of the Python type of `T`, whose `members` hold objects that may refer back to it.
template <class T, auto... members>
struct CollectedSlots {
  static int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
    Py_VISIT(Py_TYPE(self));
    if (!nanobind::inst_ready(self)) return 0;
    const T* state = nanobind::inst_ptr<T>(self);
    int result = 0;
    auto visit_one = [&](PyObject* held) {
      if (held != nullptr && result == 0) result = visit(held, arg);
    };
    (visit_one((state->*members).ptr()), ...);
    return result;
  }

  static int clear(PyObject* self) noexcept {
    if (nanobind::inst_ready(self))
      ((nanobind::inst_ptr<T>(self)->*members = nanobind::none()), ...);
    return 0;
  }

  static inline PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                       {0, nullptr}};
};

/// The base of the state of a function: its name and its entry in a method table.
struct FunctionState {
  std::string name;
  PyMethodDef method{};
};

/// A built-in function whose C function `function` gets `state` as its `self`, and owns it.
template <class State, class Function>
nanobind::object make_function(std::unique_ptr<State> state, Function* function, int flags) {
  PyMethodDef* method = &state->method;
  auto erased = reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
  *method = {state->name.c_str(), erased, flags, nullptr};
  nanobind::object self = nanobind::cast(state.release(), nanobind::rv_policy::take_ownership);
  nanobind::str module("kernelcore");
  nanobind::object made = nanobind::steal(PyCFunction_NewEx(method, self.ptr(), module.ptr()));
  if (!made.is_valid()) throw nanobind::python_error();
  return made;
}

}  // namespace kernelcore::bind
