"""Functions that make arrays like another one, and copy elements."""

from __future__ import annotations

from typing import Any

from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.keywords import checked_keywords
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.creation import full, zeros
from kernelcore.runtime.device import require_device


@checked_keywords
def zeros_like(
    src: Array,
    device: str | None = None,
    requires_grad: bool | None = None,
    *,
    retain_grad: bool = False,
) -> Array:
    """Zeros of the shape, dtype and ``requires_grad`` of ``src``."""
    wanted = src.requires_grad if requires_grad is None else requires_grad
    target = src.device if device is None else device
    return zeros(src.shape, src.dtype, target, wanted, retain_grad=retain_grad)


@checked_keywords
def empty_like(
    src: Array,
    device: str | None = None,
    requires_grad: bool | None = None,
    *,
    retain_grad: bool = False,
) -> Array:
    """``empty`` with the shape, dtype and ``requires_grad`` of ``src``."""
    return zeros_like(src, device, requires_grad, retain_grad=retain_grad)


@checked_keywords
def ones_like(
    src: Array,
    device: str | None = None,
    requires_grad: bool | None = None,
    *,
    retain_grad: bool = False,
) -> Array:
    """Ones of the shape, dtype and ``requires_grad`` of ``src``."""
    return full_like(src, 1, device, requires_grad, retain_grad=retain_grad)


@checked_keywords
def full_like(
    src: Array,
    value: Any,
    device: str | None = None,
    requires_grad: bool | None = None,
    *,
    retain_grad: bool = False,
) -> Array:
    """Elements ``value`` of the shape, dtype and ``requires_grad`` of ``src``."""
    wanted = src.requires_grad if requires_grad is None else requires_grad
    target = src.device if device is None else device
    return full(src.shape, value, src.dtype, target, wanted, retain_grad=retain_grad)


@checked_keywords
def clone(
    src: Array,
    device: str | None = None,
    requires_grad: bool | None = None,
    *,
    retain_grad: bool = False,
) -> Array:
    """A contiguous copy, which a Tape records; ``requires_grad`` as in ``src`` by default."""
    target = src.device if device is None else require_device("clone", device)
    found = src.clone(requires_grad, device=target)
    if retain_grad:
        found.retain_grad = True
    return found


@checked_keywords
def copy(
    dest: Array, src: Array, dest_offset: int = 0, src_offset: int = 0, count: int = 0
) -> None:
    """Overwrite elements of ``dest`` with elements of ``src``, which a Tape records.

    Args:
        dest: An array of the dtype of ``src``.
        src: An array.
        dest_offset: The first element to write, counted in row-major order.
        src_offset: The first element to read.
        count: How many; 0 for all of ``src`` from its offset on.

    Raises:
        KernelArgumentError: Another dtype or shape, or elements that are not there.
    """
    if src.dtype != dest.dtype:
        raise KernelArgumentError(
            f"copy: expected an array of {dest.element}, found {src.element}",
            remedy="convert it with kc.array(src, dtype=...)",
        )
    if not (dest_offset or src_offset or count) and dest.shape == src.shape:
        dest.assign(src)
        return
    for name, value in (
        ("dest_offset", dest_offset),
        ("src_offset", src_offset),
        ("count", count),
    ):
        if value < 0:
            raise KernelArgumentError(
                f"copy: {name}: expected at least 0, found {value}",
                remedy="offsets count elements from the first one",
            )
    count = count or max(src.size - src_offset, 0)
    for name, size, offset in (("dest", dest.size, dest_offset), ("src", src.size, src_offset)):
        if offset + count > size:
            raise KernelArgumentError(
                f"copy: {name}: expected at least {offset + count} elements, found {size}",
                remedy="give other offsets or another count",
            )
    target = dest.flatten()[dest_offset : dest_offset + count]
    target.assign(src.flatten()[src_offset : src_offset + count])
