// Eager calls of torch operations past torch's dispatcher, where that changes nothing.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "torch/operation.h"

namespace kernelcore::bind {

/// What the fast path asks of torch before it may run.
struct TorchHooks {
  nanobind::object tensor_type;
  nanobind::object parameter_type;
  nanobind::object len_dispatch_stack;    // () -> int
  nanobind::object len_function_stack;    // () -> int
  nanobind::object forward_ad_module;     // its _current_level is -1 outside forward AD
  nanobind::object any_autocast_enabled;  // () -> bool, or None
};

/// Takes over `hooks`, which live as long as the process.
void set_torch_hooks(TorchHooks hooks);

/// Adds the type that fast entries keep their state in.
void bind_fast_entry(nanobind::module_& m);

/// A built-in function that runs `operation` at once on plain CPU tensors.
///
/// Calls `slow_grad` when a derivative is wanted (None: `slow` does that too) and `slow` with the
/// same arguments whenever the call is not plain: subclasses, modes, transforms, other devices.
nanobind::object make_fast_entry(std::shared_ptr<const torch::Operation> operation,
                                 const std::string& name, const std::string& doc,
                                 nanobind::object slow_grad, nanobind::object slow);

}  // namespace kernelcore::bind
