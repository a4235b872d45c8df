"""The native half of the adapter, set up for the torch of this process."""

from __future__ import annotations

from pathlib import Path

import torch

from kernelcore import ArrayType
from kernelcore.operators import (
    Operation,
    Scalar,
    _native,
    architecture_of,
    device_form,
    dtype_code,
    make_signature,
    thunk,
)

LIBRARY = str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")

TorchAdjoint = _native.TorchAdjoint
TorchGradPlan = _native.TorchGradPlan
TorchDeviceOperation = _native.TorchDeviceOperation
TorchOperation = _native.TorchOperation
backward = _native.torch_backward
fast_entry = _native.torch_fast_entry
forward = _native.torch_forward
# Of two classes that have DLPack's exchange API: the plain tensors of native calls.
use_tensors = _native.torch_init


_native.torch_bind(LIBRARY)
use_tensors(torch.Tensor, torch.nn.Parameter)


def describe(
    operation: Operation,
    signature: _native.LaunchDescriptor,
    tensor_values: bool,
    on_devices: TorchDeviceOperation | None = None,
) -> TorchOperation:
    """``operation`` as native code takes it, with the code of ``signature``.

    Where all tensors are on one GPU, calls run ``on_devices``.
    """
    operands = [
        (True, dtype_code(o.type.dtype), o.type.ndim)
        if isinstance(o.type, ArrayType)
        else (tensor_values, dtype_code(o.type), 0)
        for o in operation.operands
    ]
    results = [(dtype_code(r.type.dtype), r.shape) for r in operation.results]
    visible, grid = operation.visible, operation.grid
    return TorchOperation(signature, operands, results, visible, grid, on_devices)


def implement(
    operation: TorchOperation | TorchDeviceOperation,
    namespace: str,
    names: tuple[str, ...],
    dispatch_key: str,
) -> None:
    """Make ``operation`` what the operators ``names`` run at a dispatch key."""
    _implement(operation.boxed(), namespace, names, dispatch_key)


def implement_out(operation: TorchOperation, namespace: str, name: str, dispatch_key: str) -> None:
    """Likewise for an overload that takes tensors for the results after the operands."""
    _implement(operation.boxed(takes_outs=True), namespace, (name,), dispatch_key)


def _implement(
    boxed: tuple[int, int], namespace: str, names: tuple[str, ...], dispatch_key: str
) -> None:
    address = thunk(*boxed)
    for name in names:
        _native.torch_impl(namespace, name, dispatch_key, address)


def on_devices(operation: Operation, tensor_values: bool) -> TorchDeviceOperation:
    """``operation`` on CUDA tensors: its code is made when a device is first used."""
    scalars = [i for i, o in enumerate(operation.operands) if isinstance(o.type, Scalar)]
    # Nobody waits for a device to tell the number in a tensor: the kernel loads it.
    loaded = scalars if tensor_values else []

    def make(ordinal: int) -> tuple[TorchOperation, _native.DeviceKernel]:
        form = device_form(operation, architecture_of(ordinal), loaded)
        signature = make_signature(form.func, form.code, form.bindings)
        kernel = _native.DeviceKernel(signature, form.code.image, form.code.symbol)
        return describe(operation, signature, tensor_values), kernel

    is_tensor = [tensor_values or i not in scalars for i in range(len(operation.operands))]
    return TorchDeviceOperation(is_tensor, make)
