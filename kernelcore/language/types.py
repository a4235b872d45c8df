"""The types of the kernel language: scalars, their composites, and arrays of either.

Composite types exist in source, in memory and in signatures; values of the IR are scalars. A vector
is its components, a struct its fields; an array of vectors is an array of scalars with one more
dimension, and an array of structs is one array per field.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.lazy import Deferred
from kernelcore.language.scalars import PYTHON_SCALARS as PYTHON_SCALARS
from kernelcore.language.scalars import SCALARS as SCALARS
from kernelcore.language.scalars import Scalar as Scalar
from kernelcore.language.scalars import bfloat16 as bfloat16
from kernelcore.language.scalars import boolean as boolean
from kernelcore.language.scalars import float16 as float16
from kernelcore.language.scalars import float32 as float32
from kernelcore.language.scalars import float64 as float64
from kernelcore.language.scalars import int8 as int8
from kernelcore.language.scalars import int16 as int16
from kernelcore.language.scalars import int32 as int32
from kernelcore.language.scalars import int64 as int64
from kernelcore.language.scalars import scalar_of_numpy as scalar_of_numpy
from kernelcore.language.scalars import uint8 as uint8
from kernelcore.language.scalars import uint16 as uint16
from kernelcore.language.scalars import uint32 as uint32
from kernelcore.language.scalars import uint64 as uint64

# It imports this module.
composite: Any = Deferred("kernelcore.language.composite")

MAX_ARRAY_DIMS = 4
# Indices have 32 bits, so all extents are smaller than this.
MAX_EXTENT = 1 << 31
# Launch dimensions of tid(), and of a grid, to which batching adds some in front.
MAX_TID_DIMS = 4
MAX_GRID_DIMS = 8


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A strided array of the IR, of ``ndim`` dimensions; with none, one element by reference.

    The last ``len(components)`` dimensions have the extents ``components``: they are the
    components of an element. An array with no other dimensions is a composite value by reference.

    Attributes:
        named: A hint for code generation, no part of what the type means: the extents of the last
            axes, one or two, if a kernel names every index along them by a constant. Equality
            ignores it; the printed form, and so the keys of caches, have it.
    """

    dtype: Scalar
    ndim: int
    components: tuple[int, ...] = ()
    named: tuple[int, ...] = field(default=(), compare=False)

    @property
    def outer_ndim(self) -> int:
        """Dimensions that are not components."""
        return self.ndim - len(self.components)

    def __repr__(self) -> str:
        inner = "".join(f", {n}" for n in self.components)
        named = f", named {' x '.join(map(str, self.named))}" if self.named else ""
        inner = inner and f", components ({inner[2:]})"
        return f"array({self.dtype}, {self.outer_ndim}{inner}{named})"


@dataclass(frozen=True, slots=True)
class StackType:
    """A private last-in-first-out store of scalars, on which derivatives record values."""

    dtype: Scalar

    def __repr__(self) -> str:
        return f"stack({self.dtype})"


Type = Scalar | ArrayType | StackType


def as_array(type_: ArrayType | Scalar) -> ArrayType:
    """``type_``, a scalar as an array of no dimensions."""
    return type_ if isinstance(type_, ArrayType) else ArrayType(type_, 0)


def element_type(type_: Type | Dense) -> Scalar:
    """The scalar that ``type_`` is, or holds."""
    held = type_.scalar if isinstance(type_, Dense) else type_
    return held if isinstance(held, Scalar) else held.dtype


@dataclass(frozen=True, slots=True)
class TypeClass:
    """A set of scalars that a signature may ask for by name."""

    name: str
    members: tuple[Scalar, ...]

    def __repr__(self) -> str:
        return self.name


INTEGERS = tuple(s for s in SCALARS if s.is_integer)
FLOATS = tuple(s for s in SCALARS if s.is_float)


def unsigned(bits: int) -> Scalar:
    """The unsigned integer of ``bits`` bits."""
    return next(s for s in SCALARS if s.kind == "uint" and s.bits == bits)


# Type classes that signatures of built-ins are written in; each scalar is the class of itself.
TYPE_CLASSES: dict[str, tuple[Scalar, ...]] = {
    "Bool": (boolean,),
    "Int": INTEGERS,
    "Float": FLOATS,
    "Number": (*INTEGERS, *FLOATS),
    "Any": SCALARS,
    **{s.name: (s,) for s in SCALARS},
}
AnyScalar = TypeClass("Any", SCALARS)
AnyFloat = TypeClass("Float", FLOATS)
AnyNumber = TypeClass("Number", TYPE_CLASSES["Number"])


@dataclass(frozen=True, slots=True)
class Dense:
    """Components of one scalar type.

    ``kind`` is 'vector' (shape (n,)), 'matrix' (shape (rows, columns)), 'quaternion' (shape (4,):
    x, y, z, w) or 'transform' (shape (7,): position, rotation). A pattern has a TypeClass for
    ``dtype``, or None in ``shape``, where any will do.
    """

    kind: str
    dtype: Scalar | TypeClass
    shape: tuple[int | None, ...]

    @property
    def scalar(self) -> Scalar:
        """The type of a component of a concrete type."""
        assert isinstance(self.dtype, Scalar)
        return self.dtype

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of a concrete type."""
        return tuple(n for n in self.shape if n is not None)

    @property
    def size(self) -> int:
        """The number of components of a concrete type."""
        return prod(self.extents)

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for several types."""
        return isinstance(self.dtype, TypeClass) or None in self.shape

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same layout: a subarray."""
        return np.dtype((self.scalar.numpy, self.extents))

    def __repr__(self) -> str:
        sizes = "x".join("?" if n is None else str(n) for n in self.shape)
        known = _SUFFIXES.get(self.dtype.name)
        match self.kind:
            case "vector":
                plain = sizes in ("2", "3", "4") and known is not None
                return f"vec{sizes}{known}" if plain else f"vector({sizes}, {self.dtype})"
            case "matrix":
                plain = sizes in ("2x2", "3x3", "4x4") and known is not None
                name = f"mat{sizes.replace('x', '')}{known}"
                return name if plain else f"matrix({sizes}, {self.dtype})"
            case "quaternion":
                return f"quat{known}" if known is not None else f"quaternion({self.dtype})"
            case _:
                return f"{self.kind}{known}" if known is not None else f"{self.kind}({self.dtype})"


# Suffixes of the names of composites, by their scalar type.
_SUFFIXES: dict[str, str] = {
    "float32": "",
    "float64": "d",
    "float16": "h",
    "int8": "b",
    "uint8": "ub",
    "int16": "s",
    "uint16": "us",
    "int32": "i",
    "uint32": "ui",
    "int64": "l",
    "uint64": "ul",
}


@dataclass(frozen=True, slots=True)
class StructType:
    """Named fields in a fixed order, laid out as a C compiler does.

    Attributes:
        name: Of the class.
        fields: Their names and types.
        defaults: Numbers, or tuples of them, by the fields that start as them and not as zeros.
    """

    name: str
    fields: tuple[tuple[str, Member], ...]
    defaults: tuple[tuple[str, object], ...] = ()

    def field(self, name: str) -> Member | None:
        """The type of a field, or None."""
        return dict(self.fields).get(name)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the layout in an array; ``stored`` has no arrays."""
        pairs: list[tuple[str, np.dtype[Any]]] = [
            (name, member.numpy)
            for name, member in stored(self).fields
            if not isinstance(member, ArrayOf)
        ]
        return np.dtype(pairs, align=True)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array as users see it: ``ndim`` dimensions of scalars, composites or structs.

    With ``is_indexed`` each is looked up in an array of indices first; with ``is_flat`` any rank is
    seen as one dimension. The ``element`` of a pattern may be a TypeClass or None.
    """

    element: Scalar | Dense | StructType | TypeClass | None
    ndim: int
    is_indexed: bool = False
    is_flat: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for several types."""
        return self.element is None or is_pattern(self.element)

    @property
    def dtype(self) -> Any:
        """The scalar type, or the class of vectors or matrices; of a pattern, ``element``."""
        found = self.element
        return composite.value_class(found) if isinstance(found, Dense) else found

    @property
    def shape(self) -> tuple[int, ...]:
        """An extent of 0 per dimension: types of arrays have no extents."""
        return (0,) * self.ndim

    @property
    def size(self) -> int:
        """0, the product of ``shape``."""
        return 0

    def __repr__(self) -> str:
        name = "indexedarray" if self.is_indexed else "array"
        return f"{name}({self.element or 'Any'}, {'...' if self.is_flat else self.ndim})"


Element = Scalar | Dense | StructType
Member = Scalar | Dense | StructType | ArrayOf
# Types that a parameter, a variable or a field can be declared with.
SourceType = Scalar | Dense | StructType | ArrayOf | TypeClass


def is_pattern(type_: SourceType) -> bool:
    """Whether ``type_`` stands for several types."""
    if isinstance(type_, Dense | ArrayOf):
        return type_.is_pattern
    return isinstance(type_, TypeClass)


def admits(want: SourceType, found: SourceType) -> bool:
    """Whether the pattern ``want`` stands for the type ``found``."""
    match want, found:
        case TypeClass(members=members), Scalar():
            return found in members
        case Dense(), Dense():
            if want.kind != found.kind or len(want.shape) != len(found.shape):
                return False
            shapes = zip(want.shape, found.shape, strict=True)
            return admits(want.dtype, found.dtype) and all(a in (None, b) for a, b in shapes)
        case ArrayOf(), ArrayOf():
            if want.ndim != found.ndim or found.element is None:
                return False
            return want.element is None or admits(want.element, found.element)
        case _:
            return want == found


def has_layout(type_: SourceType) -> bool:
    """Whether values of ``type_`` lie in memory as a unit: no array is among them."""
    if isinstance(type_, StructType):
        return all(has_layout(member) for _, member in type_.fields)
    return isinstance(type_, Scalar | Dense)


def can_be_stored(type_: SourceType) -> bool:
    """Whether an element of an array can hold a ``type_``: an array with one address can."""
    match type_:
        case StructType(fields=fields):
            return all(can_be_stored(member) for _, member in fields)
        case ArrayOf():
            return not (type_.is_indexed or type_.is_flat)
        case _:
            return True


def descriptor(type_: ArrayOf) -> StructType:
    """What an array of structs holds of an array: its address, and its extents."""
    extents = Dense("vector", int32, (type_.ndim,))
    return StructType(f"array{type_.ndim}d", (("address", uint64), ("shape", extents)))


@cache
def stored(type_: StructType) -> StructType:
    """``type_`` as it lies in an array, with the descriptors of arrays in place of arrays."""
    if has_layout(type_):
        return type_
    fields: list[tuple[str, Member]] = []
    for name, member in type_.fields:
        match member:
            case ArrayOf():
                fields.append((name, descriptor(member)))
            case StructType():
                fields.append((name, stored(member)))
            case _:
                fields.append((name, member))
    return StructType(type_.name, tuple(fields))


def scalar_of(annotation: object) -> Scalar | None:
    """The scalar that ``annotation`` (a Scalar, or bool, int, float) stands for, or None."""
    if isinstance(annotation, Scalar):
        return annotation
    return PYTHON_SCALARS.get(annotation) if isinstance(annotation, type) else None


def type_of(annotation: object) -> SourceType | None:
    """The type that ``annotation`` stands for, or None.

    It is a type itself, Python's bool, int or float, or a class with an attribute ``kernel_type``:
    those of vectors, matrices and structs.
    """
    if isinstance(annotation, Dense | StructType | ArrayOf | TypeClass):
        return annotation
    found = scalar_of(annotation)
    if found is not None:
        return found
    # Looked up in the class itself: a subclass of a vector type is another Python type.
    known = getattr(annotation, "kernel_type", None) if isinstance(annotation, type) else None
    return known if isinstance(known, Dense | StructType) else None
