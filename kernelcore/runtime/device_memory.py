"""Memory of devices: NumPy holds its layout without access; copies go through a stream."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from kernelcore._native import ArrayMemory
from kernelcore.base import native
from kernelcore.language.types import SCALARS
from kernelcore.runtime.device import CPU, Device, cuda_device, device_of_arrays
from kernelcore.runtime.stream import Stream, current_stream

Numbers = np.ndarray[Any, np.dtype[Any]]
# A pattern is filled word by word: larger ones are faster to copy. The second limit is for values
# that are not repeated.
_MOST_REPEATED_BYTES, _MOST_WRITTEN_BYTES = 64, 16


def device_of(memory: ArrayMemory) -> Device:
    """The device of ``memory``; host memory is the CPU's, pinned or not."""
    if memory.is_on_host:
        return CPU
    return cuda_device(memory.__dlpack_device__()[1])


def device_holding(value: object) -> Device:
    """The device of ``value``, an array of any library; the CPU for other objects."""
    if isinstance(value, ArrayMemory):
        return device_of(value)
    return device_of_arrays((value,)) or CPU


def allocated(
    shape: tuple[int, ...], layout: np.dtype[Any], stream: Stream
) -> tuple[Numbers, native.DeviceBuffer]:
    """New memory of a GPU, not initialized, and its layout; for use in ``stream``.

    Raises:
        KernelMemoryError: There is not enough.
    """
    size_bytes = math.prod(shape) * layout.itemsize
    buffer = native.DeviceBuffer.on_device(stream.queue, size_bytes)
    return _layout_at(buffer.address, size_bytes, shape, layout), buffer


def pinned(
    shape: tuple[int, ...], layout: np.dtype[Any], device: Device
) -> tuple[Numbers, native.DeviceBuffer]:
    """Zeros in page-locked memory of the host, for asynchronous copies of the GPU ``device``.

    Raises:
        KernelMemoryError: There is not enough.
    """
    size_bytes = math.prod(shape) * layout.itemsize
    buffer = native.DeviceBuffer.pinned(device.ordinal, size_bytes)
    found = _layout_at(buffer.address, size_bytes, shape, layout, owner=buffer)
    found[...] = np.zeros((), layout)
    return found, buffer


def on_device(values: Numbers, stream: Stream) -> ArrayMemory:
    """A copy of ``values`` in memory of a GPU, for use in ``stream``."""
    data, buffer = allocated(values.shape, values.dtype, stream)
    memory = ArrayMemory(data, None, buffer)
    upload(memory, data, values, stream)
    return memory


def layout_of(memory: ArrayMemory) -> Numbers:
    """The layout of ``memory``, which holds scalars of the kernel language and is kept alive."""
    begin, end = memory.span.begin, memory.span.end
    layout = SCALARS[memory.scalar_index].numpy
    found = _layout_at(
        *(begin, end - begin, memory.extents, layout),
        offset=memory.ptr - begin,
        strides=memory.stride_bytes,
    )
    found.flags.writeable = not memory.is_read_only
    return found


def _layout_at(
    address: int,
    size_bytes: int,
    shape: tuple[int, ...],
    layout: np.dtype[Any],
    *,
    owner: object = None,
    offset: int = 0,
    strides: tuple[int, ...] | None = None,
) -> Numbers:
    """An array of NumPy over an address; creating it does not read the memory."""
    if math.prod(shape) == 0:
        return np.empty(shape, layout)
    span: Any = (ctypes.c_char * size_bytes).from_address(address)
    span.owner = owner
    return np.ndarray(shape, layout, buffer=span, offset=offset, strides=strides)


def downloaded(memory: ArrayMemory, layout: Numbers) -> Numbers:
    """A copy of the elements of ``memory`` on the host, after all queued writes.

    Raises:
        KernelError: A kernel has failed on the device.
    """
    found = np.empty(layout.shape, layout.dtype)
    queue = current_stream(device_of(memory)).queue
    native.cuda_copy(queue, ArrayMemory(found), memory)
    queue.synchronize()
    return found


def upload(
    memory: ArrayMemory, layout: Numbers, values: Numbers, stream: Stream | None = None
) -> None:
    """Overwrite the elements of ``memory`` with ``values`` of the host, which are broadcast.

    The copy is queued in ``stream``, by default the current one.
    """
    queue = (stream or current_stream(device_of(memory))).queue
    pattern = _pattern(layout, values)
    if pattern is None:
        whole = np.array(np.broadcast_to(values, layout.shape), order="C")
        native.cuda_copy(queue, memory, ArrayMemory(whole))
    else:
        native.cuda_fill(queue, memory, pattern)


def is_fill(layout: Numbers, values: Numbers) -> bool:
    """Whether the driver can fill memory of ``layout`` with ``values``, without a copy."""
    return _pattern(layout, values) is not None


def _pattern(layout: Numbers, values: Numbers) -> bytes | None:
    """The pattern of bytes that fills memory of ``layout`` with ``values``, of 1 or 4 if possible.

    None if the layout has gaps or the pattern is too long.
    """
    most = _MOST_REPEATED_BYTES if values.nbytes < layout.nbytes else _MOST_WRITTEN_BYTES
    if not layout.flags.c_contiguous or values.nbytes > most:
        return None
    ndim = next((values.ndim - k for k, n in enumerate(values.shape) if n != 1), 0)
    if values.shape[values.ndim - ndim :] != layout.shape[layout.ndim - ndim :]:
        return None
    whole = np.ascontiguousarray(values).tobytes()
    if len(whole) == 2 and layout.nbytes % 4 == 0:
        whole = whole * 2
    for unit in (whole[:1], whole[:4]):
        if unit and whole == unit * (len(whole) // len(unit)):
            return unit
    return whole or None


def can_copy(target: ArrayMemory, source: ArrayMemory) -> bool:
    """Whether the driver can copy the elements of ``source``, of one dtype, to ``target``."""
    if target.extents != source.extents or target.span.overlaps(source.span):
        return False
    is_peer = target.is_on_cuda and source.is_on_cuda and device_of(target) != device_of(source)
    return not is_peer or (target.is_packed and source.is_packed)


def copy_elements(target: ArrayMemory, source: ArrayMemory) -> None:
    """Copy elements, at least one of whose arrays is on a device; see ``can_copy``.

    It returns before the copy is complete, unless it reads into unpinned host memory.

    Raises:
        KernelArgumentError: The memory of one was lent, and was taken back.
    """
    for memory in (target, source):
        memory.require_memory()
    is_download = target.is_on_host
    queue = current_stream(device_of(source if is_download else target)).queue
    native.cuda_copy(queue, target, source)
    if target.is_on_cuda and source.is_on_cuda and not queue.is_capturing:
        # Later writes to the source, in the current stream there, wait for the copy.
        current_stream(device_of(source)).queue.wait_for(queue)
    if is_download and not target.is_pinned:
        queue.synchronize()
