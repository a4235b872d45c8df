// Arrays of NumPy, read from where its C interface says that they keep what they are.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"

namespace kernelcore::bind {

/// Whether objects of `type` are NumPy's own arrays, of which `read_numpy` may be asked.
bool is_numpy_array(PyTypeObject* type);

/// Reads what the buffer protocol would say of `object`, in a fifth of the time; false, and no
/// error is set, where elements are none of kernels or need a look from that. The memory stays in
/// place as long as the object.
bool read_numpy(PyObject* object, ArrayInfo& info);

}  // namespace kernelcore::bind
