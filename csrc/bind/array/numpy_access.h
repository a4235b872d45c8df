// Reads NumPy arrays directly, by the layout of their C struct.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"

namespace kernelcore::bind {

/// Whether `type` is numpy.ndarray and its struct has the known layout.
bool is_numpy_array(PyTypeObject* type);

/// As the buffer protocol, in a fifth of the time; false, without an error set, for dtypes that
/// only the buffer protocol reads. The memory is valid while the object lives.
bool read_numpy(PyObject* object, ArrayInfo& info);

}  // namespace kernelcore::bind
