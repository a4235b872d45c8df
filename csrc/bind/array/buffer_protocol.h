// Reads memory through Python's buffer protocol.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"

namespace kernelcore::bind {

/// Exports the memory of `object`; false with an error set. The caller releases `buffer`.
bool export_buffer(PyObject* object, Py_buffer* buffer);

/// Fills `info` from an export.
bool read_buffer(const Py_buffer& buffer, ArrayInfo& info);

/// An array of NumPy of bfloat16, which the buffer protocol lacks, as one of its bits; invalid for
/// other objects, with the Python error kept that is set.
nanobind::object bits_of_bfloat16(PyObject* object);

/// An export that lasts as long as the keeper; null with an error set.
Keeper keep_buffer(PyObject* object, ArrayInfo& info);

}  // namespace kernelcore::bind
