"""Classes of vectors, matrices, quaternions and transforms on the host.

They are annotations in kernels, and their instances values to launch with.

A part of a value (a row, a slice, the position of a transform) shares its memory, as with NumPy;
whatever is made by a constructor or an operator has its own.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator
from functools import cache
from itertools import permutations
from typing import Any, ClassVar, Self, cast

import numpy as np

from kernelcore.base.errors import KernelAttributeError, KernelTypeError
from kernelcore.language.composite_matmul import no_operator, product
from kernelcore.language.conversion import (
    Array,
    checked_index,
    component_texts,
    converted,
    describe,
    is_number,
    places_of,
    take_array,
    take_scalar,
)
from kernelcore.language.types import Dense, Scalar


class CompositeClass(type):
    """The class of the classes of composites; they print and pickle as their types do."""

    kernel_type: Dense

    def __repr__(cls) -> str:
        return cls.__name__


class Composite(metaclass=CompositeClass):
    """A composite value: an array of components of one scalar type.

    Attributes:
        kernel_type: Its type in the kernel language.
        dtype: The type of a component.
        shape: The shape of the components.
        length: Components of a vector, rows of a matrix.
    """

    __slots__ = ("_data",)
    __array_ufunc__ = None  # NumPy leaves the operators to this class.
    kernel_type: ClassVar[Dense]
    dtype: ClassVar[Any]
    shape: ClassVar[tuple[int, ...]]
    length: ClassVar[int]
    _data: Array

    def __init__(self, *args: Any) -> None:
        kind = self.kernel_type
        if kind.is_pattern:
            raise KernelTypeError(
                f"{kind} stands for several types",
                remedy=f"name one of them, such as {_EXAMPLES[kind.kind]}, to make a value",
            )
        try:
            self._data = self._make(args)
        except KernelTypeError as error:
            raise KernelTypeError(f"{kind}(): {error.message}", remedy=error.remedy) from None

    @classmethod
    def _make(cls, args: tuple[Any, ...]) -> Array:
        """The components that the arguments of a constructor give."""
        kind = cls.kernel_type
        if not args:
            return np.zeros(kind.extents, kind.scalar.numpy)
        if len(args) == kind.size and all(is_number(a) for a in args):
            return take_array(kind.scalar, args, (kind.size,)).reshape(kind.extents)
        if len(args) == 1:
            if isinstance(args[0], Composite) and args[0].kernel_type.shape == kind.shape:
                return converted(kind.scalar, args[0]._data)
            return take_array(kind.scalar, args[0], kind.extents)
        counts = f"0, 1 or {kind.size}"
        raise KernelTypeError(
            f"expected {counts} arguments, found {len(args)}", remedy="give every component"
        )

    @classmethod
    def _of(cls, data: Array) -> Self:
        """A value over the memory of ``data``."""
        value = object.__new__(cls)
        value._data = data
        return value

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        found: Any = self._data[checked_index(type(self).__name__, self._data, index)]
        return found if np.ndim(found) == 0 else _part(self.kernel_type.scalar, found)

    def __setitem__(self, index: Any, value: Any) -> None:
        scalar = self.kernel_type.scalar
        place = checked_index(type(self).__name__, self._data, index)
        shape = np.shape(self._data[place])
        is_whole = shape == () or is_number(value)
        self._data[place] = (
            take_scalar(scalar, value) if is_whole else take_array(scalar, value, shape)
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The components; a view is read-only."""
        if copy or (dtype is not None and np.dtype(dtype) != self._data.dtype):
            if copy is False:
                raise ValueError(f"{type(self).__name__}: another dtype needs a copy")
            return np.array(self._data, dtype)
        view = self._data.view()
        view.flags.writeable = False
        return view

    def __reduce__(self) -> tuple[Callable[..., Composite], tuple[Dense, Array]]:
        return restore, (self.kernel_type, self._data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(component_texts(self._data))})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Composite):
            return type(other) is type(self) and np.array_equal(self._data, other._data)
        if isinstance(other, list | tuple | np.ndarray):
            found = cast("Any", other)
            return np.shape(found) == self._data.shape and np.array_equal(self._data, found)
        return NotImplemented

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __pos__(self) -> Self:
        return self._of(self._data.copy())

    def __neg__(self) -> Self:
        return self._apply(np.negative, "-", self._data)

    def __add__(self, other: Any) -> Self:
        return self._apply(np.add, "+", self._data, self._same(other, "+"))

    def __sub__(self, other: Any) -> Self:
        return self._apply(np.subtract, "-", self._data, self._same(other, "-"))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Composite):
            return self._product(other, "*")
        return self._apply(np.multiply, "*", self._data, self._scalar(other, "*"))

    def __rmul__(self, other: Any) -> Self:
        return self._apply(np.multiply, "*", self._scalar(other, "*"), self._data)

    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, Composite):
            raise self._no_operator("@", other, "use * to scale")
        return self._product(other, "@")

    def __truediv__(self, other: Any) -> Self:
        self._refuse_integers()
        return self._apply(np.divide, "/", self._data, self._scalar(other, "/"))

    def __rtruediv__(self, other: Any) -> Self:
        self._refuse_integers()
        return self._apply(np.divide, "/", self._scalar(other, "/"), self._data)

    def _refuse_integers(self) -> None:
        if not self.kernel_type.scalar.is_float:
            raise KernelTypeError(
                f"/: {type(self).__name__} has no float components",
                remedy="convert it to floats first, such as vec3(v)",
            )

    def _same(self, other: object, sign: str) -> Array:
        """The components of another value of the same type."""
        if isinstance(other, Composite) and type(other) is type(self):
            return other._data
        raise self._no_operator(sign, other, f"convert it: {type(self).__name__}(...)")

    def _scalar(self, other: object, sign: str) -> Any:
        """A factor as a component."""
        if not is_number(other):
            raise self._no_operator(sign, other, _REMEDIES[sign])
        try:
            return take_scalar(self.kernel_type.scalar, other)
        except KernelTypeError as error:
            raise self._no_operator(sign, other, error.remedy) from None

    def _no_operator(self, sign: str, other: object, remedy: str | None) -> KernelTypeError:
        found = other.kernel_type if isinstance(other, Composite) else describe(other)
        return no_operator(sign, self.kernel_type, found, remedy)

    def _product(self, other: Composite, sign: str) -> Composite:
        operands = (self.kernel_type, self._data), (other.kernel_type, other._data)
        type_, data = product(sign, *operands)
        return value_class(type_)._of(data)

    def _apply(self, op: np.ufunc, sign: str, *operands: Any) -> Self:
        if self.kernel_type.scalar.kind == "bool":
            raise KernelTypeError(
                f"{sign}: {type(self).__name__} has no arithmetic",
                remedy="convert it to integers first",
            )
        with np.errstate(all="ignore"):
            return self._of(op(*operands))


class Component:
    """A component of a value by its letter, or several that follow each other: ``xy``, ``wzyx``."""

    def __init__(self, name: str) -> None:
        places = places_of(name)
        assert places is not None
        self.name = name
        self.last = max(places)
        self.index: int | slice = places[0]
        if len(places) > 1:
            stop = None if places.stop < 0 else places.stop
            self.index = slice(places.start, stop, places.step)

    def __get__(self, value: Composite | None, owner: type) -> Any:
        return self if value is None else value[self._checked(value)]

    def __set__(self, value: Composite, component: Any) -> None:
        value[self._checked(value)] = component

    def _checked(self, value: Composite) -> int | slice:
        if self.last < len(value):
            return self.index
        name = type(value).__name__
        raise KernelAttributeError(
            f"{name} has no component '{self.name}'",
            remedy=f"index it with 0 to {len(value) - 1}",
        )


class Vector(Composite):
    """Base of the classes of vectors."""

    __slots__ = ()
    x, y, z, w = (Component(name) for name in "xyzw")

    @classmethod
    def _make(cls, args: tuple[Any, ...]) -> Array:
        kind = cls.kernel_type
        if _is_fill(kind, args):
            return _filled(kind, args)
        if len(args) > 1 and any(isinstance(a, Vector) for a in args):
            args = tuple(c for a in args for c in (a if isinstance(a, Vector) else (a,)))
        return super()._make(args)


class Matrix(Composite):
    """Base of the classes of matrices; its items are rows."""

    __slots__ = ()

    @classmethod
    def _make(cls, args: tuple[Any, ...]) -> Array:
        kind = cls.kernel_type
        if _is_fill(kind, args):
            return _filled(kind, args)
        if len(args) == kind.extents[0] and all(np.ndim(a) == 1 for a in args):
            return take_array(kind.scalar, args, kind.extents)
        if len(args) == 1 and np.shape(args[0]) == (kind.size,) != kind.extents:
            return take_array(kind.scalar, args[0], (kind.size,)).reshape(kind.extents)
        return super()._make(args)


class Quaternion(Composite):
    """Base of the classes of quaternions: x, y, z, w."""

    __slots__ = ()
    x, y, z, w = (Component(name) for name in "xyzw")

    @classmethod
    def _make(cls, args: tuple[Any, ...]) -> Array:
        scalar = cls.kernel_type.scalar
        if len(args) == 2 and not is_number(args[0]):
            vector_part = take_array(scalar, args[0], (3,))
            return np.append(vector_part, take_scalar(scalar, args[1]))
        return super()._make(args)


class Transform(Composite):
    """Base of the classes of rigid transforms: a position p and a rotation q."""

    __slots__ = ()

    def __init__(self, *args: Any, p: Any = None, q: Any = None) -> None:
        if p is not None or q is not None:
            position = p if p is not None or args else (0, 0, 0)
            args = (
                *args,
                *([] if position is None else [position]),
                (0, 0, 0, 1) if q is None else q,
            )
        super().__init__(*args)

    @classmethod
    def _make(cls, args: tuple[Any, ...]) -> Array:
        scalar = cls.kernel_type.scalar
        if len(args) == 2:
            position = take_array(scalar, args[0], (3,))
            return np.concatenate([position, take_array(scalar, args[1], (4,))])
        return super()._make(args)

    @property
    def p(self) -> Any:
        """The position, a vector of three."""
        return _part(self.kernel_type.scalar, self._data[:3])

    @p.setter
    def p(self, value: Any) -> None:
        self[:3] = take_array(self.kernel_type.scalar, value, (3,))

    @property
    def q(self) -> Any:
        """The rotation, a quaternion."""
        return value_class(Dense("quaternion", self.kernel_type.scalar, (4,)))._of(self._data[3:])

    @q.setter
    def q(self, value: Any) -> None:
        self[3:] = take_array(self.kernel_type.scalar, value, (4,))

    def __repr__(self) -> str:
        parts = (", ".join(component_texts(part)) for part in np.split(self._data, [3]))
        return f"{type(self).__name__}(({'), ('.join(parts)}))"


for _name in ("".join(p) for n in (2, 3, 4) for p in permutations("xyzw", n)):
    if places_of(_name):
        setattr(Vector, _name, Component(_name))
        setattr(Quaternion, _name, Component(_name))

_BASES: dict[str, type[Composite]] = {
    "vector": Vector,
    "matrix": Matrix,
    "quaternion": Quaternion,
    "transform": Transform,
}
_EXAMPLES = {"vector": "vec3", "matrix": "mat33", "quaternion": "quat", "transform": "transform"}
_REMEDIES = {"*": "multiply by a number", "/": "divide by a number, or use cw_div"}


@cache
def value_class(type_: Dense) -> type[Any]:
    """The Python class of a composite type; equal types have one class."""
    members = {
        "__slots__": (),
        "__module__": __name__,
        "__doc__": f"The type {type_} of the kernel language.",
        "kernel_type": type_,
        "dtype": type_.dtype,
        "shape": type_.shape,
        "length": type_.shape[0],
        # The names that they have in Warp.
        "_wp_scalar_type_": type_.dtype,
        "_shape_": type_.shape,
        "_length_": None if None in type_.shape else type_.size,
    }
    return CompositeClass(repr(type_), (_BASES[type_.kind],), members)


def restore(type_: Dense, data: Array) -> Composite:
    """A value of ``type_`` with a copy of the components ``data``, as unpickling makes it."""
    return value_class(type_)._of(data.copy())


def _reduce_class(cls: CompositeClass) -> str | tuple[Callable[[Dense], type[Any]], tuple[Dense]]:
    is_type = "kernel_type" in vars(cls)
    return (value_class, (cls.kernel_type,)) if is_type else cls.__qualname__


copyreg.pickle(CompositeClass, _reduce_class)  # pyright: ignore[reportArgumentType]


def _is_fill(kind: Dense, args: tuple[Any, ...]) -> bool:
    """Whether one number is given for all components."""
    return len(args) == 1 and kind.size != 1 and is_number(args[0])


def _filled(kind: Dense, args: tuple[Any, ...]) -> Array:
    return np.full(kind.extents, take_scalar(kind.scalar, args[0]), kind.scalar.numpy)


def _part(scalar: Scalar, data: Array) -> Composite:
    """A part of a value: a vector or a matrix over the memory of ``data``."""
    return value_class(Dense("vector" if data.ndim == 1 else "matrix", scalar, data.shape))._of(
        data
    )
