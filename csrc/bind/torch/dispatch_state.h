// torch's dispatch state: whether a mode, a transform or a subclass must see a call.
#pragma once

#include <nanobind/nanobind.h>

#include "dlpack.h"
#include "torch/shim.h"

namespace kernelcore::bind {

/// Sets the two classes of plain tensors, and looks up what torch says of its state.
void set_tensor_types(nanobind::object tensor_type, nanobind::object parameter_type);

/// DLPack's exchange API of tensors; throws an internal Error before `set_tensor_types`.
const DLPackExchangeAPI& tensor_exchange_api();

/// THPVariable_Wrap: the Python object of a tensor, a new reference; null with an error set.
using WrapTensor = PyObject* (*)(torch::TensorHandle);

/// torch's function; null where this version has another one.
WrapTensor wrap_tensor();

/// Whether `object` is a tensor or a parameter, of no other class.
bool is_plain_tensor(PyObject* object);

/// Whether a mode, a transform of torch.func, forward AD, the tracer of torch.jit or a profiler
/// looks at calls; the mode that torch's default device is does not.
///
/// Below a transform even calls on plain tensors count: new tensors are wrapped there.
bool is_observed();

/// Whether tensors are to be cast to the dtypes that operators want.
bool is_autocast_enabled();

/// Whether autograd wants to know what becomes of `tensor`; an error counts as true.
bool requires_grad(PyObject* tensor);

}  // namespace kernelcore::bind
