"""Array: strided memory with elements of the kernel language, gradients and a count of writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from kernelcore import _native
from kernelcore.base import native
from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.lazy import Deferred
from kernelcore.language.types import SCALARS, Dense, Element, StructType
from kernelcore.runtime.array.described_arrays import require_portable
from kernelcore.runtime.array.element_layout import (
    Numbers,
    component_ndim,
    element_in,
    element_of,
    element_value,
    member_dtype,
    numpy_layout,
    scalar_in,
    zeroed,
)
from kernelcore.runtime.array.element_operators import ElementOperators
from kernelcore.runtime.array.foreign_memory import is_ordered, unreadable
from kernelcore.runtime.array.gradient import GradientMemory
from kernelcore.runtime.array.indexing import axis_order, index_of, reinterpreted, reshaped
from kernelcore.runtime.array.strided import ElementMemory
from kernelcore.runtime.device import CPU, Device, require_device
from kernelcore.runtime.device_memory import allocated, device_of, pinned, upload
from kernelcore.runtime.hooks import observer
from kernelcore.runtime.stream import current_stream

# ``array_html`` is for notebooks; the others import this module.
if TYPE_CHECKING:
    from kernelcore.runtime.array import annotations, array_html, creation, indexed_array
else:
    annotations = Deferred("kernelcore.runtime.array.annotations")
    array_html = Deferred("kernelcore.runtime.array.array_html")
    creation = Deferred("kernelcore.runtime.array.creation")
    indexed_array = Deferred("kernelcore.runtime.array.indexed_array")


# What users need of an array; completion offers these, and the rest is for kernelcore.
_PUBLIC = frozenset(
    {
        *("assign", "broadcast", "capacity", "clone", "contiguous", "copy", "device", "dtype"),
        *("fields", "fill_", "flatten", "grad", "is_contiguous", "is_on_cuda", "is_read_only"),
        *("list", "mark_write", "ndim", "numpy", "pinned", "ptr", "requires_grad", "reshape"),
        *("retain_grad", "shape", "size", "strides", "to", "transpose", "view", "zero_"),
    }
)


class Array(ElementOperators, GradientMemory):
    """An array of scalars, vectors, matrices or structs, in memory of the CPU or of a GPU.

    ``kc.array(data, dtype)`` makes one. As an annotation of a parameter, ``kc.array(dtype=float)``
    and ``kc.array[kc.vec3]`` are types of arrays; see ``annotations.array_type``.

    Views (slices, ``reshape``, ``transpose``, ...) share memory, count of writes and gradients
    with the array that they are taken from. ``+ - * / // % **`` make a new array with a launch,
    which a Tape records. Comparison with ``==`` and hashing go by identity, so that arrays can be
    keys; compare ``numpy()`` for the elements.

    Writes by launches and methods are counted. After a write through ``numpy()`` or another library
    call ``mark_write()``; a ``Tape`` then detects that a value it needs was overwritten.

    Args:
        data: Nested sequences of numbers, vectors or structs, or anything that NumPy can view:
            NumPy arrays, arrays of kernelcore, torch tensors in CPU memory. Components of vectors
            and matrices are trailing axes, or lie in a row along the last one.
        dtype: The type of an element; by default that of the data.
        shape: The shape, if not that of the data. Without data, the array holds zeros.
        ndim: The number of dimensions to check for.
        copy: Whether to copy; without, the array shares the memory of ``data``.
        device: Where, such as 'cpu' or 'cuda:0'; by default that of ``get_device``.
        requires_grad: Whether a Tape computes its gradient.
        grad: The array to keep the gradient in.
        retain_grad: Whether a backward pass leaves the gradient of an array that a launch wrote;
            see ``Array.retain_grad``.
        pinned: Whether new memory without data is page-locked.
        ptr: The address of memory to share instead of ``data``, of ``shape`` elements.
        strides: Bytes between neighbours along each dimension of the memory at ``ptr``.
        capacity: The bytes at ``ptr``, checked if given.
        deleter: Called with ``ptr`` and the number of bytes when nothing uses them any longer.

    Raises:
        KernelTypeError: Elements that ``dtype`` cannot take, or no type of an element.
        KernelArgumentError: Another shape, or memory that cannot be shared.

    Example:
        >>> x = kc.array([1.0, 2.0], dtype=float)
        >>> (x + 1.0).numpy()
        array([2., 3.], dtype=float32)
    """

    __slots__ = ("__dict__", "_fields")

    def __new__(cls, *args: Any, **options: Any) -> Any:
        annotated = annotations.asked_for(args, options) if cls is Array else None
        return super().__new__(cls) if annotated is None else annotated

    def __init__(
        self, data: Any = None, dtype: Any = None, shape: Any = None, **options: Any
    ) -> None:
        made = creation.make(data, dtype, shape, **options)
        super().__init__(made._data, made, None)
        self._set_up(made.element, made.dtype, made._inner)
        self._numpy, self._kept = made._numpy, made._kept
        self._requires_grad, self._grad = made._requires_grad, made._grad
        self._retain_grad = made._retain_grad

    def __class_getitem__(cls, dtype: Any) -> Any:
        return annotations.array_type(dtype)

    @classmethod
    def over(
        cls,
        data: Numbers,
        dtype: Any,
        *,
        memory: Array | None = None,
        buffer: native.DeviceBuffer | None = None,
    ) -> Array:
        """An array over NumPy's memory, which is not copied.

        Args:
            data: A NumPy array in the layout of the elements: components of vectors and matrices
                are trailing axes, structs a structured dtype.
            dtype: A scalar type, or the class of a composite or of a struct.
            memory: An array that ``data`` is a view of.
            buffer: Memory of a device, whose layout is ``data``.

        Raises:
            KernelArgumentError: ``data`` has another layout.
        """
        element, known = element_of(dtype)
        inner = component_ndim(element, data)
        self = super().__new__(cls)
        ElementMemory.__init__(self, data, memory, buffer)
        self._set_up(element, known, inner)
        if memory is not None:
            self._root = memory.root
        # A private view: users cannot assign its shape.
        self._numpy = data.view()
        return self

    def _set_up(self, element: Element, dtype: Any, inner: int) -> None:
        super()._set_up(element, dtype, inner)
        self._fields: dict[str, Array] | None = None

    @classmethod
    def sharing(cls, source: Any, dtype: Any = None, *, copy: bool = False) -> Array:
        """An array over the memory of any array or DLPack capsule, which it keeps alive.

        Args:
            source: An array; its last dimensions are components of composites. An array on a GPU is
                ordered after its owner's work in the current stream.
            dtype: The type of an element; by default the scalar type of ``source``.
            copy: Whether to copy the elements to new contiguous memory instead.

        Raises:
            KernelArgumentError: ``source`` exports no memory, memory of another device, or
                elements that are not of ``dtype``.
        """
        try:
            self = _native.copied(cls, source) if copy else _native.adopted(cls, source)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise unreadable(source, error) from None
        if self.is_on_cuda and copy:
            return cls.sharing(source, dtype).clone()
        if self.is_on_cuda and is_ordered(source):
            self = _native.adopted_in(cls, source, current_stream(device_of(self)).queue)
        index = self.scalar_index
        if dtype is None and index >= 0:
            self._set_up(SCALARS[index], SCALARS[index], 0)
        else:
            self._set_up(*element_in(self, source, dtype))
        return self

    @classmethod
    def zeros(
        cls, shape: tuple[int, ...], element: Element, dtype: Any, device: Device = CPU
    ) -> Array:
        """Zeros of ``element`` in new memory; ``dtype`` is that of ``element_of``."""
        layout, extents = numpy_layout(element)
        if not device.is_cpu:
            data, buffer = allocated((*shape, *extents), layout, current_stream(device))
            self = cls.over(data, dtype, buffer=buffer)
            upload(self, data, np.zeros((), layout))
            return self
        if isinstance(element, StructType):
            return cls.over(zeroed(shape, layout), dtype)
        scalar = element.scalar if isinstance(element, Dense) else element
        self = _native.zeroed(cls, (*shape, *extents), scalar.index)
        self._set_up(element, dtype, len(extents))
        return self

    @classmethod
    def pinned_zeros(cls, shape: tuple[int, ...], element: Element, dtype: Any) -> Array:
        """Zeros in page-locked host memory, which GPUs copy asynchronously.

        Raises:
            KernelDeviceError: There is no GPU.
        """
        layout, extents = numpy_layout(element)
        current = require_device("zeros", None)
        device = current if current.is_cuda else require_device("zeros", "cuda")
        data, buffer = pinned((*shape, *extents), layout, device)
        return cls.over(data, dtype, buffer=buffer)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _view(self, data: Numbers, derive: Callable[[Any], Array], dtype: object = None) -> Array:
        """An array of part of the memory; ``derive`` takes the same part of the gradient."""
        view = Array.over(data, self._dtype if dtype is None else dtype, memory=self)
        view._base, view._derive = self, derive
        return view

    def __getitem__(self, index: Any) -> Any:
        parts = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        if parts and all(isinstance(part, Array) for part in parts):
            return indexed_array.IndexedArray(self, parts)
        index = index_of(index, self.ndim)
        found = self._data[(*index, ...)]
        if any(isinstance(one, slice) for one in index):
            return self._view(found, lambda whole: whole[index])
        if self.is_on_cuda:
            found = self._part(index).numpy()
        return element_value(self._dtype, found, self.kept)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._part(index_of(index, self.ndim)).assign(value)

    @property
    def fields(self) -> Mapping[str, Array] | None:
        """For structs, a view per field, by name; else None."""
        if self._fields is None and isinstance(self._element, StructType):
            self._fields = {
                name: self._view(
                    self._data[name],
                    lambda whole, n=name: whole.fields[n],
                    member_dtype(self._dtype, name),
                )
                for name, _ in self._element.fields
            }
        return self._fields

    def _part(self, index: tuple[Any, ...]) -> Array:
        return self._view(self._data[(*index, ...)], lambda whole: whole._part(index))

    def reshape(self, *shape: Any) -> Array:
        """A view of other extents, one of which may be -1.

        Raises:
            KernelArgumentError: Another number of elements, or no such view of this memory.
        """
        given = tuple(shape[0]) if len(shape) == 1 and np.ndim(shape[0]) else shape
        data = reshaped(self._data, self.ndim, given)
        return self._view(data, lambda whole: whole.reshape(given))

    def flatten(self) -> Array:
        """A view of one dimension.

        Raises:
            KernelArgumentError: There is none, since the elements have no constant stride.
        """
        return self.reshape(self.size)

    def broadcast(self, shape: tuple[int, ...]) -> Array:
        """A read-only view that is broadcast to ``shape``, without a gradient.

        Raises:
            ValueError: The shapes do not fit.
        """
        extents = (*shape, *self.extents[self.ndim :])
        return Array.over(np.broadcast_to(self._data, extents), self._dtype, memory=self)

    def transpose(self, axes: Sequence[int] | None = None) -> Array:
        """A view with its dimensions reversed, or in the order ``axes``."""
        order = axis_order(axes, self.ndim)
        inner = range(self.ndim, self._data.ndim)
        data = self._data.transpose((*order, *inner))
        return self._view(data, lambda whole: whole.transpose(order))

    def view(self, dtype: Any) -> Array:
        """A view of the memory as elements of another type of the same size.

        Gradients are shared if both consist of the same scalars; else the view has none.

        Raises:
            KernelArgumentError: The sizes differ, or an element of this view has gaps.
        """
        mine, (other, known) = self.element, element_of(dtype)
        data = reinterpreted(self._data, self.ndim, mine, other)
        found = Array.over(data, known, memory=self)
        if scalar_in(mine) == scalar_in(other):
            found._base, found._derive = self, lambda whole: whole.view(known)
        return found

    def contiguous(self) -> Array:
        """This array if its elements lie in order without gaps, else a copy."""
        return self if self.is_contiguous else self.clone()

    def _new(self, device: Device | None = None) -> Array:
        """Zeros of this shape and dtype, by default on the device of this array."""
        return Array.zeros(self.shape, self._element, self._dtype, device or self.device)

    def clone(self, requires_grad: bool | None = None, *, device: Device | None = None) -> Array:
        """A contiguous copy; ``requires_grad`` and ``device`` are this array's by default.

        It does not retain its gradient, unless ``retain_grad`` of it is set.
        """
        found = self._new(device)
        found.requires_grad = self.requires_grad if requires_grad is None else requires_grad
        found.assign(self)
        return found

    copy = clone

    def to(self, device: object) -> Array:
        """This array if ``device`` is where it is, else a copy there, which a Tape records.

        Raises:
            KernelArgumentError: There is no such device.
        """
        wanted = require_device("to", device)
        return self if wanted == self.device else self.clone(device=wanted)

    def assign(self, source: Any) -> None:
        """Overwrite the elements with those of ``source``, which is broadcast.

        A Tape records it: the gradient passes to ``source``, if that is an Array.

        Raises:
            KernelArgumentError: Shapes do not fit, or the memory is read-only.
            KernelTypeError: The elements cannot be converted.
        """
        if self.is_read_only:
            raise KernelArgumentError("the array is read-only", remedy="write to a copy of it")
        write = self.writer(source)
        observing = observer.get()
        if observing is None:
            write()
        else:
            observing.record_copy(self, source if isinstance(source, Array) else None, write)

    def fill_(self, value: Any) -> Self:
        """Set every element to ``value``: an element, or a number for all components."""
        self.assign(value)
        return self

    def zero_(self) -> Self:
        """Set every element to zero."""
        return self.fill_(np.zeros((), self._data.dtype) if self._data.dtype.names else 0)

    def __dir__(self) -> Iterable[str]:
        special = {name for name in super().__dir__() if name.startswith("__")}
        return sorted({*_PUBLIC, *special, *self.__dict__})

    def _repr_html_(self) -> str:
        return array_html.array_html(self)

    def __reduce__(self) -> tuple[Callable[..., Array], tuple[Any, ...], dict[str, Any] | None]:
        require_portable(self._element, self)
        # Without the gradient.
        flags = self.requires_grad, self.retain_grad
        made = (type(self), np.array(self.numpy()), self._dtype, *flags)
        return _unpickled, made, self.__dict__ or None


def _unpickled(
    cls: type[Array], data: Numbers, dtype: Any, requires_grad: bool, retain_grad: bool = False
) -> Array:
    found = cls.over(data, dtype)
    found.requires_grad, found.retain_grad = requires_grad, retain_grad
    return found


# The name in programs.
array = Array
