"""JAX arrays as data arrays and the reverse, on the same memory; types and devices of both."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from kernelcore import Array, Device, bfloat16, uint16
from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.operators import SCALARS, Scalar, require_device, scalar_of

_FROM_NUMPY = {scalar.numpy: scalar for scalar in SCALARS}


@dataclass(frozen=True, slots=True)
class Interface:
    """Memory of a GPU that says by an array interface where it is, and what keeps it in place."""

    __cuda_array_interface__: dict[str, Any]
    owner: object = None


def shared_at(description: dict[str, Any], scalar: Scalar, owner: object = None) -> Array:
    """An array of ``scalar`` on described memory, whose dtype the protocol may lack."""
    if scalar is not bfloat16:
        return Array.sharing(Interface(description, owner))
    return Array.sharing(Interface({**description, "typestr": "<u2"}, owner)).view(scalar)


def from_jax(jax_array: Any, dtype: Any = None) -> Array:
    """An array over the memory of a JAX array, which it keeps alive. It is read-only.

    Args:
        jax_array: An array on one device, a CPU or a GPU.
        dtype: The type of an element; the last dimensions are components of vectors and matrices.
            Default: the scalar type of the array.

    Raises:
        KernelArgumentError: A traced, deleted or sharded array, another device, or elements that
            are not of ``dtype``.
        KernelTypeError: The kernel language has no such scalar.
    """
    if not _is_array(jax_array.__class__):
        raise _no_array(jax_array)
    try:
        return Array.sharing(jax_array, dtype)
    except KernelArgumentError:
        _check(jax_array)
        raise


@cache
def _is_array(kind: type) -> bool:
    """Whether instances of ``kind`` are arrays with memory."""
    return issubclass(kind, jax.Array) and not issubclass(kind, Tracer)


def _no_array(found: Any) -> KernelArgumentError:
    if isinstance(found, Tracer):
        return KernelArgumentError(
            "from_jax: expected an array, found a value that is traced",
            remedy="use jax_kernel or jax_callable inside of jit, grad and vmap",
        )
    return KernelArgumentError(
        f"from_jax: expected a JAX array, found {type(found).__name__}",
        remedy="kc.array and kc.from_numpy take other arrays",
    )


def _check(array: jax.Array) -> None:
    """Refuse an array whose memory cannot be shared, saying what JAX knows of it."""
    if array.is_deleted():
        raise KernelArgumentError(
            "from_jax: the array was deleted",
            remedy="do not use an array after it was donated or deleted",
        )
    devices = array.devices()
    if len(devices) != 1:
        raise KernelArgumentError(
            f"from_jax: expected an array on one device, found one on {len(devices)}",
            remedy="take the shards: [from_jax(s.data) for s in array.addressable_shards]",
        )
    device_from_jax(next(iter(devices)))
    dtype_from_jax(array.dtype)


def to_jax(warp_array: Array) -> jax.Array:
    """A JAX array over the memory of an array; components are its last dimensions.

    JAX takes arrays for immutable: what is written to ``warp_array`` later may or may not be seen.

    Args:
        warp_array: An array of no structs, without gaps, at an address that is a multiple of 64, as
            kernelcore's own memory is. That of a GPU is used behind what its stream was given.

    Raises:
        KernelArgumentError: Another array; ``kc.clone`` makes one that fits.
    """
    if not isinstance(warp_array, Array):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise KernelArgumentError(
            f"to_jax: expected a data array, found {type(warp_array).__name__}",
            remedy="jnp.asarray takes arrays of other libraries",
        )
    if warp_array.fields is not None:
        raise KernelArgumentError(
            f"to_jax: JAX has no arrays of {warp_array.element}",
            remedy="convert its fields: to_jax(array.fields['name'])",
        )
    if warp_array.size == 0:
        return jnp.zeros(warp_array.numpy().shape, warp_array.numpy().dtype)
    if not warp_array.is_contiguous or warp_array.ptr % 64:
        what = "starts at no multiple of 64 bytes" if warp_array.is_contiguous else "has gaps"
        raise KernelArgumentError(
            f"to_jax: the memory of the array {what}, so JAX cannot share it",
            remedy="make a copy of your own: to_jax(kc.clone(array))",
        )
    given = _as_writable(warp_array) if warp_array.is_read_only else warp_array
    if warp_array.is_on_cuda:
        return jnp.from_dlpack(given, copy=False)
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        return jnp.from_dlpack(given, copy=False)


def _as_writable(array: Array) -> Array:
    """``array`` without the mark of being read-only, which JAX cannot read and has no need of."""
    if array.is_on_cuda:
        scalars = Array.sharing(array)
        is_named = scalars.dtype is not bfloat16
        description = (scalars if is_named else scalars.view(uint16)).__cuda_array_interface__
        return shared_at({**description, "data": (array.ptr, False)}, scalars.dtype, array)
    data = array.numpy()
    memory: Any = (ctypes.c_char * data.nbytes).from_address(array.ptr)
    memory.owner = array
    return Array.sharing(np.frombuffer(memory, data.dtype).reshape(data.shape))


def dtype_from_jax(jax_dtype: Any) -> Scalar:
    """The scalar type of the same layout as a dtype of JAX, such as ``jnp.float32``.

    Raises:
        KernelTypeError: The kernel language has none.
    """
    try:
        found = _FROM_NUMPY.get(jnp.dtype(jax_dtype))
    except TypeError:
        found = None
    if found is None:
        known = ", ".join(s.name for s in SCALARS)
        raise KernelTypeError(
            f"dtype_from_jax: expected one of {known}, found {jax_dtype}",
            remedy="convert the values first: x.astype('float32'), for example",
        )
    return found


def dtype_to_jax(warp_dtype: Any) -> Any:
    """The type of JAX of the same layout as a scalar type: ``jnp.float32``, for example.

    Raises:
        KernelTypeError: It is not a scalar type; vectors and matrices are trailing dimensions.
    """
    scalar = scalar_of(warp_dtype)
    if scalar is None:
        raise KernelTypeError(
            f"dtype_to_jax: expected a scalar type, found {warp_dtype}",
            remedy="elements of vectors and matrices are trailing dimensions of JAX arrays",
        )
    return scalar.numpy.type


def device_from_jax(jax_device: Any) -> Device:
    """The device that a device of JAX is.

    Raises:
        KernelArgumentError: kernelcore has no such device.
    """
    platform = getattr(jax_device, "platform", jax_device)
    name = "cpu" if platform == "cpu" else f"cuda:{getattr(jax_device, 'local_hardware_id', 0)}"
    return require_device("device_from_jax", name if platform in ("cpu", "gpu") else platform)


def device_to_jax(warp_device: Any) -> jax.Device:
    """The device of JAX that a device is; for the CPU the first one of this process.

    Raises:
        KernelArgumentError: There is no such device.
    """
    device = require_device("device_to_jax", warp_device)
    if device.is_cpu:
        return jax.local_devices(backend="cpu")[0]
    try:
        known = jax.local_devices(backend="cuda")
    except RuntimeError:  # JAX has no such backend.
        known = []
    for found in known:
        if found.local_hardware_id == device.ordinal:
            return found
    raise KernelArgumentError(
        f"device_to_jax: JAX does not use '{device}' in this process, but {jax.local_devices()}",
        remedy="install jax[cuda], and check JAX_PLATFORMS and JAX_CUDA_VISIBLE_DEVICES",
    )
