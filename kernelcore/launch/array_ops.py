"""Copies, zeros and sums of elements on any device: at once, or in every replay of a capture.

On a GPU they are queued in the current stream. A Tape does not record them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelcore._native import ArrayMemory
from kernelcore.base import native
from kernelcore.base.lazy import Deferred
from kernelcore.language.types import MAX_ARRAY_DIMS, SCALARS, Scalar
from kernelcore.launch.dispatch import execute_leaves
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.element_layout import Numbers, as_numpy, element_of, has_gradient
from kernelcore.runtime.device import Device
from kernelcore.runtime.device_memory import device_holding, layout_of
from kernelcore.runtime.hooks import DeviceCall, capture_sink, perform
from kernelcore.runtime.stream import current_stream

if TYPE_CHECKING:
    from kernelcore.launch import element_kernels
else:
    element_kernels = Deferred("kernelcore.launch.element_kernels")


def layout(leaf: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape, components included, and dtype that NumPy has for ``leaf``; nothing is copied."""
    if isinstance(leaf, Array):
        return leaf.layout
    if device_holding(leaf).is_cpu:
        data = as_numpy(leaf)
        return data.shape, data.dtype
    memory = ArrayMemory(leaf)
    return memory.extents, SCALARS[memory.scalar_index].numpy


def copy_of(leaf: Any) -> Array | Numbers:
    """A copy of the current elements of ``leaf``, on its device."""
    if device_holding(leaf).is_cpu:
        return np.array(as_numpy(leaf))
    source = leaf if isinstance(leaf, Array) else Array.sharing(leaf)
    return _moved(source, source)


def snapshot(target: Array) -> Array:
    """A new array with what ``target`` holds at this place, also in replays of a capture."""
    held = _moved(None, target)
    perform(held.writer(target))
    return held


def overwrite(target: Array, source: Array) -> None:
    """Overwrite ``target`` with ``source``, an array of the same layout on the same device."""
    perform(target.writer(source))


def copied_to(device: Device, values: Numbers) -> Array | Numbers:
    """``values``, an array of scalars, on ``device``."""
    if device.is_cpu:
        return values
    dtype, known = element_of(values.dtype)
    found = Array.zeros(values.shape, dtype, known, device)
    found.writer(values)()
    return found


def new_zeros(shape: tuple[int, ...], dtype: Scalar, device: Device) -> Array | Numbers:
    """Zeros on ``device``, which every replay of a capture clears again."""
    if device.is_cpu:
        found = np.zeros(shape, dtype.numpy)
        if capture_sink() is not None:
            perform(lambda: found.fill(0))
        return found
    made = Array.zeros(shape, dtype, dtype, device)
    if capture_sink() is not None:
        clear(made)
    return made


def clear(target: Array) -> None:
    """Zero the elements of ``target``; of structs on a GPU, the fields that have gradients."""
    if not target.is_on_cuda:
        perform(lambda: _clear_here(target))
        return
    if target.is_contiguous:
        device = target.device
        fill = lambda: native.cuda_fill(current_stream(device).queue, target, b"\0")  # noqa: E731
        perform(DeviceCall(device, fill, [target], [target]))
        return
    for part in _floats_of(target):
        for (block,) in _blocks(part):
            _run(element_kernels.clear_all, block.shape, block)


def _clear_here(target: Array) -> None:
    if ArrayMemory.clear(target):
        return
    target.numpy()[...] = np.zeros((), target.numpy().dtype)
    target.mark_write()


def set_one(target: Array) -> None:
    """Set the only element of ``target`` to 1."""
    perform(target.writer(1.0) if target.is_on_cuda else target.set_one)


def add_to(target: Array, term: Any) -> None:
    """Add ``term``, an array of the same layout on any device, to ``target``."""
    if not target.is_on_cuda:
        perform(lambda: _add_here(target, as_numpy(term)))
    elif isinstance(term, Array) and term.device == target.device:
        _add_there(target, term)
    else:
        perform(lambda: _add_there(target, _moved(term, target)))


def _add_here(target: Array, term: Numbers) -> None:
    _add_numbers(target.numpy(), term)
    target.mark_write()


def _add_numbers(total: Numbers, term: Numbers) -> None:
    if total.dtype.names is None:
        if total.dtype.kind not in "biu":
            total += term
        return
    for name in total.dtype.names:
        _add_numbers(total[name], term[name])


def scale(target: Any, factor: Numbers) -> None:
    """Multiply the elements of ``target``, an array of any library, by numbers on the host."""
    if device_holding(target).is_cpu:
        known = as_numpy(target)
        known *= factor
        return
    known = target if isinstance(target, Array) else Array.sharing(target)
    known.writer(known.numpy() * factor)()


def pull(target: Array, source: Array | None) -> None:
    """Move the elements of ``target`` to ``source``: add them there, and clear ``target``.

    Both are cotangents: of the array that an assignment wrote, and of the one that it read, which
    was broadcast.
    """
    if source is None:
        clear(target)
    elif source.is_on_cuda:
        held = _moved(None, target, source.device)
        perform(held.writer(target))
        if target.is_pinned:
            # The copy may still read what is cleared now.
            perform(lambda: current_stream(source.device).queue.synchronize())
        clear(target)
        _add_there(source, held)
    else:
        perform(lambda: _pull_here(target, source))


def _pull_here(target: Array, source: Array) -> None:
    held = np.array(target.numpy())
    clear(target)
    _add_here(source, _summed(held, source.numpy().shape))


def _summed(held: Numbers, shape: tuple[int, ...]) -> Numbers:
    """The sums over the axes along which an array of ``shape`` was broadcast."""
    lead = tuple(range(held.ndim - len(shape)))
    if lead:
        held = held.sum(axis=lead)
    ones = tuple(k for k, n in enumerate(shape) if n == 1 and held.shape[k] != 1)
    return held.sum(axis=ones, keepdims=True) if ones else held


def _moved(values: Any, like: Array, device: Device | None = None) -> Array:
    """A new array like ``like``, with ``values`` unless they are None; by default on its device.

    The values are copied once, and not again by replays.
    """
    found = Array.zeros(like.shape, like.element, like.dtype, device or like.device)
    if values is not None:
        found.writer(values)()
    return found


# Arrays on a GPU, split into blocks for kernels of four dimensions.


def _add_there(target: Array, term: Array) -> None:
    """Add ``term``, on the same GPU, to ``target``, which may have been broadcast to its shape."""
    for total, part in zip(_floats_of(target), _floats_of(term), strict=True):
        for to, of in _blocks(total, part):
            if to.shape == of.shape:
                _run(element_kernels.add, of.shape, to, of)
            else:
                steps = (int(n == m) for n, m in zip(to.shape, of.shape, strict=True))
                _run(element_kernels.add_along, of.shape, to, of, *steps)


def _floats_of(whole: Array) -> Iterator[Array]:
    """The arrays of floats in it: itself, or fields of structs."""
    if whole.fields is not None:
        for part in whole.fields.values():
            yield from _floats_of(part)
    elif has_gradient(whole.element):
        yield whole


def _blocks(*parts: Array) -> Iterator[tuple[Array, ...]]:
    """Views of four dimensions that cover ``parts``, arrays of scalars; the last is the largest.

    Missing dimensions are put first.
    """
    layouts = [layout_of(part) for part in parts]
    ndim = max(MAX_ARRAY_DIMS, *(a.ndim for a in layouts))
    whole = [a[(None,) * (ndim - a.ndim)] for a in layouts]
    for index in np.ndindex(whole[-1].shape[: ndim - MAX_ARRAY_DIMS]):
        found: list[Array] = []
        for part, data in zip(parts, whole, strict=True):
            place = tuple(min(i, n - 1) for i, n in zip(index, data.shape, strict=False))
            dtype = SCALARS[part.scalar_index]
            found.append(Array.over(data[place], dtype, memory=part))
        yield tuple(found)


def _run(chosen: Kernel, shape: tuple[int, ...], *args: Any) -> None:
    if 0 not in shape:
        execute_leaves(chosen.for_arguments(args), shape, args)
