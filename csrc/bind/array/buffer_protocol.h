// Reads memory through Python's buffer protocol.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"

namespace kernelcore::bind {

/// Reads `object` to `info` by an export that lasts as long as the keeper; null with an error set.
Keeper keep_buffer(PyObject* object, ArrayInfo& info);

/// An array of NumPy of bfloat16, which the buffer protocol lacks, as one of its bits; invalid for
/// other objects, with or without an error set.
nanobind::object bits_of_bfloat16(PyObject* object);

}  // namespace kernelcore::bind
