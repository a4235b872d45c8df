// Operations as Python objects.
#pragma once

#include "torch/boxed.h"

namespace kernelcore::bind {

/// What Python holds of an operation: thunks, fast entries and derivatives share it.
using BoundOperation = torch::Operator;

}  // namespace kernelcore::bind
