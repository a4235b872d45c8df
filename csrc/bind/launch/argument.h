// Launch arguments: from Python objects to argument-block bytes, or to a precise error.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "bind/array/array_reader.h"
#include "core/launch_descriptor.h"

namespace kernelcore::bind {

/// The memory of `object`, checked against parameter `index`; throws an argument Error if it does
/// not fit. Data arrays are known; others are read to `found`. With `is_kept` the memory is valid
/// while `keeper` lives.
const ArrayInfo& read_array_argument(const LaunchDescriptor& descriptor, size_t index,
                                     PyObject* object, ArrayInfo& found, Keeper& keeper,
                                     Consumer consumer = {}, bool is_kept = false);

/// Throws an argument Error unless `info`, the memory of `object`, fits parameter `index`; its kind
/// is kElsewhere if device `ordinal` cannot access the memory.
void check_array(const LaunchDescriptor& descriptor, size_t index, const ArrayInfo& info,
                 PyObject* object, int ordinal = -1);

/// Throws an argument Error if the memory of parameter `index` was taken back by `lender`, which
/// may be null.
void require_lent(const LaunchDescriptor& descriptor, size_t index, const Lender* lender);

/// Writes the value of `object` at `target`, in the dtype of parameter `index`.
void read_value_argument(const LaunchDescriptor& descriptor, size_t index, PyObject* object,
                         std::byte* target);

/// The name of the type of `object`.
std::string type_name(PyObject* object);

/// The text of the current Python error, which is cleared.
std::string take_python_error();

}  // namespace kernelcore::bind
