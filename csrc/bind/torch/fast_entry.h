// Eager calls of torch operations past torch's dispatcher, where that changes nothing.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "bind/torch/operation.h"

namespace kernelcore::bind {

/// Adds the type that fast entries keep their state in.
void bind_fast_entry(nanobind::module_& m);

/// A built-in function that runs `operation` at once on plain tensors of the CPU or of one GPU.
///
/// Calls `differentiated` when autograd has to know (None: `slow` does that too), and `slow` with
/// the same arguments whenever the call is not plain: subclasses, modes, transforms, other devices.
nanobind::object make_fast_entry(TorchOperation operation, const std::string& name,
                                 const std::string& doc, nanobind::object differentiated,
                                 nanobind::object slow);

}  // namespace kernelcore::bind
