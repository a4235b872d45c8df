// What torch's state says about a call: whether anything stands between it and a kernel.
#pragma once

#include <nanobind/nanobind.h>

#include "dlpack.h"

namespace kernelcore::bind {

/// What native code asks of torch before it runs a call itself.
struct TorchHooks {
  nanobind::object tensor_type;
  nanobind::object parameter_type;
  nanobind::object len_dispatch_stack;    // () -> int
  nanobind::object len_function_stack;    // () -> int
  nanobind::object forward_ad_module;     // its _current_level is -1 outside forward AD
  nanobind::object functorch_active;      // () -> bool
  nanobind::object is_tracing;            // () -> bool
  nanobind::object any_autocast_enabled;  // () -> bool, or None
  nanobind::object function_mode_at;      // (int) -> mode, or None
  nanobind::object device_mode_type;      // of modes that only say where new tensors are; or None
};

/// Takes over `hooks`, which live as long as the process.
void set_torch_hooks(TorchHooks hooks);

/// DLPack's exchange API of tensors; throws an internal Error before `set_torch_hooks`.
const DLPackExchangeAPI& tensor_exchange_api();

/// Whether `object` is a tensor or a parameter, of no other class.
bool is_plain_tensor(PyObject* object);

/// Whether a mode, a transform of torch.func, forward AD or the tracer of torch.jit looks at calls;
/// the mode that torch's default device is does not.
///
/// Below a transform even calls on plain tensors count: new tensors are wrapped there.
bool is_observed();

/// Whether tensors are to be cast to the dtypes that operators want.
bool is_autocast_enabled();

/// Whether autograd wants to know what becomes of `tensor`; an error counts as true.
bool requires_grad(PyObject* tensor);

}  // namespace kernelcore::bind
