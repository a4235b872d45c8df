// The arguments of a call from Python, in two sequences.
#pragma once

#include <nanobind/nanobind.h>

#include "core/memory/small_buffer.h"

namespace kernelcore::bind {

/// A list or tuple as it is, another iterable as a tuple; invalid if `given` is.
inline nanobind::object as_sequence(nanobind::handle given) {
  if (!given.is_valid() || PyTuple_Check(given.ptr()) != 0 || PyList_Check(given.ptr()) != 0)
    return nanobind::borrow(given);
  nanobind::object items = nanobind::steal(PySequence_Tuple(given.ptr()));
  if (!items.is_valid()) throw nanobind::python_error();
  return items;
}

/// The arguments of a launch, with a reference each: converting one may run code that drops
/// another.
class Arguments {
 public:
  Arguments(nanobind::handle inputs, nanobind::handle outputs)
      : inputs_(as_sequence(inputs)),
        outputs_(as_sequence(outputs)),
        items_(size_of(inputs_) + size_of(outputs_)) {
    append(inputs_);
    append(outputs_);
  }
  ~Arguments() {
    for (size_t i = 0; i < count_; ++i) Py_DECREF(items_[i]);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  size_t size() const { return count_; }
  PyObject* operator[](size_t i) { return items_[i]; }

 private:
  static size_t size_of(const nanobind::object& part) {
    if (!part.is_valid()) return 0;
    bool is_list = PyList_Check(part.ptr()) != 0;
    return static_cast<size_t>(is_list ? PyList_Size(part.ptr()) : PyTuple_Size(part.ptr()));
  }
  void append(const nanobind::object& part) {
    auto size = static_cast<Py_ssize_t>(size_of(part));
    bool is_list = size != 0 && PyList_Check(part.ptr()) != 0;
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyObject* item = is_list ? PyList_GetItem(part.ptr(), i) : PyTuple_GetItem(part.ptr(), i);
      items_[count_++] = Py_NewRef(item);
    }
  }

  nanobind::object inputs_;
  nanobind::object outputs_;
  SmallBuffer<PyObject*, 16> items_;
  size_t count_ = 0;
};

}  // namespace kernelcore::bind
