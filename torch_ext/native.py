"""The native half of the adapter, set up for the torch of this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from kernelcore.operators import (
    Operation,
    _native,
    architecture_of,
    gpu_operation,
    make_signature,
    native_operation,
    thunk,
)

LIBRARY = str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")

TorchAdjoint = _native.TorchAdjoint
TorchGradPlan = _native.TorchGradPlan
backward = _native.torch_backward
fast_entry = _native.torch_fast_entry
forward = _native.torch_forward
# Of two classes that have DLPack's exchange API: the plain tensors of native calls.
use_tensors = _native.torch_init


_native.torch_bind(LIBRARY)
use_tensors(torch.Tensor, torch.nn.Parameter)


def implement(
    operation: _native.Operation, namespace: str, name: str, dispatch_keys: Sequence[str]
) -> None:
    """Make ``operation`` what the operator ``name`` runs at some dispatch keys."""
    address = thunk(*_native.torch_boxed(operation))
    for key in dispatch_keys:
        _native.torch_impl(namespace, name, key, address)


def described(operation: Operation, tensor_values: bool) -> _native.Operation:
    """``operation`` as native code runs it on tensors of the CPU and of CUDA devices.

    The code for a device is made when it is first used.
    """
    scalars = [i for i, o in enumerate(operation.operands) if o.is_number(False) and not o.is_size]
    # The kernel loads the number in a tensor: reading it on the host would wait for the device.
    loaded = scalars if tensor_values else []

    def make(ordinal: int) -> tuple[_native.Operation, _native.DeviceKernel]:
        on_gpu = gpu_operation(operation, architecture_of(ordinal), loaded)
        signature = make_signature(on_gpu.func, on_gpu.code, on_gpu.bindings, operation.covered)
        kernel = _native.DeviceKernel(signature, on_gpu.code.image, on_gpu.code.symbol)
        return native_operation(operation, signature, tensor_values), kernel

    return native_operation(operation, operation.signature, tensor_values, make)
