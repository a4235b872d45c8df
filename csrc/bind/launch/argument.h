// Launch arguments: from Python objects to argument-block bytes, or to a precise error.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "bind/array/array_reader.h"
#include "core/launch_descriptor.h"

namespace kernelcore::bind {

/// Reads the array that parameter `index` takes to `found`, unless that is known already; throws an
/// argument Error if it does not fit. With `is_kept` the memory stays in place as long as `keeper`.
const ArrayInfo& read_array_argument(const LaunchDescriptor& descriptor, size_t index,
                                     PyObject* object, ArrayInfo& found, Keeper& keeper,
                                     Place place = {}, bool is_kept = false);

/// Throws an argument Error unless what was read of `object` is what parameter `index` takes; the
/// Error says that it is elsewhere where another device than `ordinal` has it.
void check_array(const LaunchDescriptor& descriptor, size_t index, const ArrayInfo& info,
                 PyObject* object, int ordinal = -1);

/// Writes the value of `object` at `target`, in the dtype of parameter `index`.
void read_value_argument(const LaunchDescriptor& descriptor, size_t index, PyObject* object,
                         std::byte* target);

/// Text of the Python error that is set, which is cleared.
std::string take_python_error();

}  // namespace kernelcore::bind
