"""Tensors as data arrays and the reverse: the same memory, and the same gradient."""

from __future__ import annotations

from typing import Any

import torch

from kernelcore import Array, ArrayMemory, Device, Stream, get_device, get_stream
from kernelcore.base.errors import KernelArgumentError

# The handle that stands for the legacy default stream, which is torch's.
_LEGACY_STREAM = 1


def from_torch(
    t: torch.Tensor,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: torch.Tensor | Array | None = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> Any:
    """A data array over the memory of a tensor.

    Where the array requires a gradient, ``t.grad`` and ``array.grad`` are the same memory; it is
    made of zeros if ``t`` has none yet. ``optimizer.zero_grad(set_to_none=True)`` takes it from
    the tensor again: use ``set_to_none=False`` or ``Tape.zero``.

    Args:
        t: A tensor on the CPU or a CUDA device, with any strides.
        dtype: The type of an element; the last dimensions of ``t`` are components of composites.
            Default: the scalar type of ``t``.
        requires_grad: Whether a Tape computes its gradient. Default: as ``t`` says, or True if
            ``grad`` is given.
        grad: The gradient, of the shape of ``t``. Default: that of ``t``.
        return_ctype: Return a handle that launches take, which is made faster, and nothing else.
        retain_grad: Whether a backward pass of a Tape leaves the gradient of an array that a launch
            wrote; see ``Array.retain_grad``.

    Raises:
        KernelArgumentError: Another device, elements that are not of ``dtype``, or no gradient to
            retain.
    """
    if return_ctype:
        return _handle(t)
    if not isinstance(t, torch.Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _no_tensor(t)
    array = Array.sharing(t, dtype)
    wanted = (t.requires_grad or grad is not None) if requires_grad is None else requires_grad
    array.requires_grad, array.retain_grad = wanted, retain_grad
    if not wanted:
        return array
    if grad is None:
        grad = _gradient(t)
    if grad is not None:
        array.grad = grad if isinstance(grad, Array) else Array.sharing(grad, dtype)
    return array


def to_torch(a: Array, requires_grad: bool | None = None) -> torch.Tensor:
    """A tensor over the memory of a data array; components are its last dimensions.

    Args:
        a: The array, of no structs.
        requires_grad: Whether the tensor requires a gradient, which is then that of ``a``.
            Default: as ``a`` says.

    Raises:
        KernelArgumentError: An array of structs, or no array.
    """
    if not isinstance(a, Array):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise KernelArgumentError(
            f"to_torch: expected a data array, found {type(a).__name__}",
            remedy="torch.as_tensor and torch.from_dlpack take arrays of other libraries",
        )
    if a.fields is not None:
        raise KernelArgumentError(
            f"to_torch: an array of {a.element} has no tensor",
            remedy="convert its fields: to_torch(array.fields['name'])",
        )
    tensor = torch.from_dlpack(a)
    if a.requires_grad if requires_grad is None else requires_grad:
        tensor.requires_grad_()
        if a.grad is not None:
            tensor.grad = torch.from_dlpack(a.grad)
    return tensor


def device_from_torch(torch_device: torch.device | str) -> Device:
    """The device that a device of torch is.

    Raises:
        KernelArgumentError: Kernels do not run there.
    """
    device = torch.device(torch_device)
    if device.type == "cuda" and device.index is None and torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
    # Torch has an index for the one CPU, too.
    return get_device("cpu" if device.type == "cpu" else str(device))


def device_to_torch(kernelcore_device: object = None) -> str:
    """The torch device of a device.

    Raises:
        KernelArgumentError: There is no such device.
    """
    return str(get_device(kernelcore_device))


def stream_from_torch(stream_or_device: Any = None) -> Stream:
    """The stream of a stream of torch, or the one that torch uses on a device.

    Args:
        stream_or_device: Either; by default torch's current CUDA device, or the CPU without one.

    Raises:
        KernelArgumentError: Kernels do not run there.
    """
    if isinstance(stream_or_device, torch.cpu.Stream):
        return get_stream("cpu")
    found = stream_or_device
    if not hasattr(found, "cuda_stream"):
        default = "cuda" if torch.cuda.is_available() else "cpu"
        device = torch.device(default if found is None else found)
        if (known := device_from_torch(device)).is_cpu:
            return get_stream(known)
        found = torch.cuda.current_stream(device)
    return Stream(device_from_torch(found.device), cuda_stream=found.cuda_stream)


def stream_to_torch(stream_or_device: Any = None) -> Any:
    """The torch stream of a stream, or of the stream of a device; by default of the current one.

    Raises:
        KernelArgumentError: There is no such device.
    """
    stream = stream_or_device
    if not isinstance(stream, Stream):
        stream = get_stream(None if stream is None else device_from_torch(stream))
    if stream.device.is_cpu:
        return torch.cpu.current_stream()
    device = torch.device(str(stream.device))
    if stream.cuda_stream == _LEGACY_STREAM:
        return torch.cuda.default_stream(device)
    made: Any = torch.cuda.ExternalStream(stream.cuda_stream, device=device)
    made.kernelcore_stream = stream  # Its handle lives as long as it does.
    return made


def _handle(t: torch.Tensor) -> ArrayMemory:
    try:
        handle = ArrayMemory(t)
        if handle.scalar_index >= 0:
            return handle
    except (BufferError, RuntimeError, TypeError):
        pass
    return Array.sharing(t)  # It refuses, and says why.


def _gradient(t: torch.Tensor) -> torch.Tensor | None:
    """The gradient of ``t``, made if there is none; None if torch keeps none for it."""
    if not (t.is_leaf or t.retains_grad):
        return None
    if t.grad is None and t.requires_grad:
        t.grad = torch.zeros_like(t)
    return t.grad


def _no_tensor(found: object) -> KernelArgumentError:
    return KernelArgumentError(
        f"from_torch: expected a tensor, found {type(found).__name__}",
        remedy="kc.from_numpy, kc.from_dlpack and kc.array take arrays of other libraries",
    )
