// Launch arguments: from Python objects to argument-block bytes, or to a precise error.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "bind/array_reader.h"
#include "core/signature.h"

namespace kernelcore::bind {

/// Reads the array that parameter `index` takes; throws an argument Error if it does not fit.
void read_array_argument(const Signature& signature, size_t index, PyObject* object,
                         ArrayView& view, Leases& leases);

/// As `read_array_argument`, of memory that stays in place as long as `keeper`.
void adopt_array_argument(const Signature& signature, size_t index, PyObject* object,
                          ArrayView& view, Keeper& keeper);

/// Throws an argument Error unless what was read of `object` is what parameter `index` takes.
void check_array(const Signature& signature, size_t index, const ArrayInfo& info, PyObject* object);

/// Writes the value of `object` at `target`, in the dtype of parameter `index`.
void read_value_argument(const Signature& signature, size_t index, PyObject* object,
                         std::byte* target);

/// Text of the Python error that is set, which is cleared.
std::string take_python_error();

}  // namespace kernelcore::bind
