// The dictionaries of __array_interface__ and __cuda_array_interface__.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"

namespace kernelcore::bind {

/// Fills `info` from `object.__cuda_array_interface__`; false with an error set. An empty array
/// counts as memory of the device of `consumer`.
bool read_cuda_interface(PyObject* object, Consumer consumer, ArrayInfo& info);

/// `numpy.asarray` of an object with `__array_interface__` or `__array__`; if `writable`, refuses a
/// copy. Invalid with an error set.
nanobind::object numpy_view_of(PyObject* object, bool writable);

/// The dictionary of version 3 that describes the memory; None for a dtype without a typestr.
nanobind::object interface_dict(const ArrayInfo& info);

}  // namespace kernelcore::bind
