// The Python face of a torch operation.
#pragma once

#include <memory>

#include "torch/operation.h"

namespace kernelcore::bind {

/// An operation that thunks, fast entries and derivatives share.
struct TorchOperation {
  std::shared_ptr<const torch::Operation> operation;
};

}  // namespace kernelcore::bind
