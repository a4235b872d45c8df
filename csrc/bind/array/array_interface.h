// The dictionaries of __array_interface__ and __cuda_array_interface__.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"

namespace kernelcore::bind {

/// Fills `info` from `object.__cuda_array_interface__`; false with an error set. What has no
/// elements is wherever it is going to be used.
bool read_cuda_interface(PyObject* object, Place place, ArrayInfo& info);

/// What `numpy.asarray` makes of an object with `__array_interface__` or `__array__`; if it is to
/// be `writable`, only the object's own memory and not a copy. Invalid with an error set.
nanobind::object numpy_view_of(PyObject* object, bool writable);

/// The dictionary that describes the memory, of version 3; none for a dtype that has no code in it.
nanobind::object interface_dict(const ArrayInfo& info);

}  // namespace kernelcore::bind
