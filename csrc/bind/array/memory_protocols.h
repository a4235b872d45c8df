// How arrays of other libraries show their memory, besides DLPack.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"

namespace kernelcore::bind {

// NumPy's C struct: numpy_access.cc.

/// Whether `type` is numpy.ndarray and its struct has the known layout.
bool is_numpy_array(PyTypeObject* type);

/// As the buffer protocol, in a fifth of the time; false, without an error set, for dtypes that
/// only the buffer protocol reads. The memory is valid while the object lives.
bool read_numpy(PyObject* object, ArrayInfo& info);

// Python's buffer protocol: buffer_protocol.cc.

/// Reads `object` to `info`; the export lasts as long as the keeper. Null with an error set.
Keeper keep_buffer(PyObject* object, ArrayInfo& info);

/// A uint16 view of a NumPy array of bfloat16, which the buffer protocol lacks; invalid for other
/// objects, with or without an error set.
nanobind::object bits_of_bfloat16(PyObject* object);

// __array_interface__ and __cuda_array_interface__: array_interface.cc.

/// Fills `info` from `object.__cuda_array_interface__`; false with an error set. An empty array
/// counts as memory of the device of `consumer`.
bool read_cuda_interface(PyObject* object, Consumer consumer, ArrayInfo& info);

/// `numpy.asarray` of an object with `__array_interface__` or `__array__`; if `writable`, refuses a
/// copy. Invalid with an error set.
nanobind::object numpy_view_of(PyObject* object, bool writable);

/// The dictionary of version 3 that describes the memory; None for a dtype without a typestr.
nanobind::object interface_dict(const ArrayInfo& info);

}  // namespace kernelcore::bind
