// Reads memory through Python's buffer protocol.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"

namespace kernelcore::bind {

/// Reads `object` to `info`; the export lasts as long as the keeper. Null with an error set.
Keeper keep_buffer(PyObject* object, ArrayInfo& info);

/// A uint16 view of a NumPy array of bfloat16, which the buffer protocol lacks; invalid for other
/// objects, with or without an error set.
nanobind::object bits_of_bfloat16(PyObject* object);

}  // namespace kernelcore::bind
