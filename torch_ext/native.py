"""The native half of the adapter, set up for the torch of this process."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.autograd import forward_ad

from kernelcore import _native
from kernelcore.compile import thunk

_native.torch_init(
    str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"),
    torch.Tensor,
    torch.nn.Parameter,
    torch._C._len_torch_dispatch_stack,
    torch._C._len_torch_function_stack,
    forward_ad,
    torch._C._are_functorch_transforms_active,
    torch._C._is_any_autocast_enabled,
)

TorchAdjoint = _native.TorchAdjoint
TorchGradPlan = _native.TorchGradPlan
TorchOperation = _native.TorchOperation
backward = _native.torch_backward
fast_entry = _native.torch_fast_entry
forward = _native.torch_forward


def implement(
    operation: TorchOperation, namespace: str, names: tuple[str, ...], has_tensors: bool
) -> None:
    """Make ``operation`` what the operators ``names`` run on CPU tensors.

    Without tensor operands there is no device to dispatch on.
    """
    address = thunk(*operation.boxed())
    for name in names:
        _native.torch_impl(
            namespace, name, "CPU" if has_tensors else "CompositeExplicitAutograd", address
        )
