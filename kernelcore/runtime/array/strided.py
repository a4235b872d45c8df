"""Strided memory of elements of the kernel language, and its view by NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np

from kernelcore._native import ArrayMemory
from kernelcore.language.types import Element, has_layout
from kernelcore.runtime.array.described_arrays import held_by, require_on
from kernelcore.runtime.array.element_layout import Numbers, element_list, elements_to_write
from kernelcore.runtime.array.foreign_memory import numpy_of
from kernelcore.runtime.device import Device
from kernelcore.runtime.device_memory import (
    can_copy,
    copy_elements,
    device_of,
    downloaded,
    is_fill,
    layout_of,
    upload,
)
from kernelcore.runtime.hooks import DeviceCall
from kernelcore.runtime.stream import current_stream


class ElementMemory(ArrayMemory):
    """Strided memory of elements: a data array without views and gradients."""

    __slots__ = ("_dtype", "_element", "_inner", "_kept", "_numpy")

    def _set_layout(self, element: Element, dtype: Any, inner: int) -> None:
        self._element, self._dtype, self._inner = element, dtype, inner
        self._numpy: Numbers | None = None
        self._kept: tuple[Any, ...] = ()

    @property
    def _data(self) -> Numbers:
        """NumPy's view of the memory; on a GPU only its layout."""
        if self.is_lent:
            self.require_memory()
        if self._numpy is None:
            self._numpy = layout_of(self) if self.is_on_cuda else numpy_of(self)
        return self._numpy

    @property
    def dtype(self) -> Any:
        """The type of an element: a scalar type, or the class of a composite or of a struct."""
        return self._dtype

    @property
    def element(self) -> Element:
        """The type of an element in the kernel language."""
        return self._element

    @property
    def ndim(self) -> int:
        """The number of dimensions, without those of components."""
        return self.total_ndim - self._inner

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the dimensions."""
        return self.extents[: self.ndim]

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes between neighbours along each dimension."""
        return self.stride_bytes[: self.ndim]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def capacity(self) -> int:
        """The bytes of the elements, without gaps between them."""
        return int(self._data.nbytes)

    @property
    def device(self) -> Device:
        """The device of the memory: 'cpu', or a GPU such as 'cuda:0'."""
        return device_of(self)

    @property
    def pinned(self) -> bool:
        """Whether it is page-locked host memory, which GPUs copy asynchronously."""
        return self.is_pinned

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return bool(self._data.flags.c_contiguous)

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("an array without dimensions has no length")
        return len(self._data)

    def __repr__(self) -> str:
        name = getattr(self._dtype, "__name__", str(self._dtype))
        if self.size == 0:
            return f"array([], shape={self.shape}, dtype={name})"
        text = np.array2string(self.numpy(), separator=", ", prefix="array(")
        return f"array({text}, dtype={name})"

    def __str__(self) -> str:
        return str(self.numpy())

    @property
    def layout(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape, components included, and dtype of ``numpy()``; nothing is copied."""
        return self._data.shape, self._data.dtype

    def writer(self, source: Any) -> Callable[[], None]:
        """A function that overwrites the elements with those that ``source`` has when called."""
        self.keep(source)
        is_far = isinstance(source, ElementMemory) and (self.is_on_cuda or source.is_on_cuda)
        if is_far and source.element == self._element and can_copy(self, source):
            copy = partial(copy_elements, self, source)
            is_near = self.is_on_cuda and source.is_on_cuda
            return DeviceCall(self.device, copy, [self], [self, source]) if is_near else copy
        values = elements_to_write(self._element, source, self.shape)

        def write() -> None:
            if self.is_on_cuda:
                upload(self, self._data, values())
            else:
                self._data[...] = values()
                self.mark_write()

        is_constant = self.is_on_cuda and not isinstance(source, ArrayMemory)
        if is_constant and is_fill(self._data, values()):
            return DeviceCall(self.device, write, [self], [self])
        return write

    @property
    def root(self) -> Self:
        """The array that this one is a view of, or itself."""
        return self

    @property
    def kept(self) -> tuple[Any, ...]:
        """The arrays that are fields of the elements."""
        return self.root._kept

    def keep(self, source: Any) -> None:
        """Keep the arrays of the structs of ``source`` alive, which are written to the memory.

        Raises:
            KernelArgumentError: One of them is on another device.
        """
        if has_layout(self._element):
            return
        held, root = tuple(held_by(source)), self.root
        require_on(self.device, held)
        is_whole = self.size == root.size and self._element == root._element
        # Elements that are not written may hold what those that are held before.
        root._kept = held if is_whole else (*root._kept, *held)

    def numpy(self) -> Numbers:
        """A NumPy array of the same memory; components are trailing axes.

        For an array on a GPU it is a copy, made after all queued launches.
        """
        return downloaded(self, self._data) if self.is_on_cuda else self._data.view()

    def list(self) -> list[Any]:
        """The elements in row-major order: Python numbers, or values of the element's class."""
        return element_list(self._dtype, self.numpy(), self.ndim, self.kept)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Numbers:
        if copy is False and self.is_on_cuda:
            raise ValueError("NumPy sees memory of a GPU as a copy only")
        return np.array(self.numpy(), dtype, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, for arrays on a GPU; the consumer waits for the stream that it names."""
        queue = current_stream(self.device).queue if self.is_on_cuda else None
        return self.cuda_interface(queue)
