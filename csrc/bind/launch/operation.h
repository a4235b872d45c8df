// Operations as Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include "torch/boxed.h"

namespace kernelcore::bind {

/// What Python holds of an operation: thunks, fast entries and derivatives share it.
using BoundOperation = torch::Operator;

/// Writes `object`, the value of operand `index` that no parameter of the kernel is bound to, at
/// `target`: an integer, which shapes may name. Other numbers are not looked at.
void read_ignored_number(const Operation& op, size_t index, PyObject* object, void* target);

}  // namespace kernelcore::bind
