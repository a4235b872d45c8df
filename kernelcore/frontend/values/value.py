"""Values of expressions while a function is lowered: trees of scalars and arrays.

The IR knows scalars and arrays of scalars only. A tree is taken apart with ``flatten`` wherever the
IR carries it (loops, branches, calls), and put together again with ``unflatten``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any
from typing import cast as as_type

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.language.types import ArrayOf, ArrayType, Dense, Element, Scalar, StructType


class Hole(Enum):
    """The place of a leaf in a skeleton."""

    HOLE = 0


HOLE = Hole.HOLE


@dataclass(frozen=True, slots=True)
class CompositeValue:
    """A composite value: its components, or one member per field."""

    type: Dense | StructType
    members: tuple[Value, ...]

    def __repr__(self) -> str:
        return f"{self.type}({', '.join(map(repr, self.members))})"


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of a view: index ``i`` is ``start + i * step`` of the array below.

    Everything is None where the view takes the dimension as it is. ``table`` is an array in which
    the index is looked up last.
    """

    start: Atom | Hole | None = None
    step: Atom | Hole | None = None
    extent: Atom | Hole | None = None
    table: Var | Hole | None = None


@dataclass(frozen=True, slots=True)
class PackedArray:
    """An array at an address, or a field of its elements; an array of the IR where it is used.

    Attributes:
        address: Of the first element, a uint64.
        extents: Integers.
        offset: Bytes from the start of an element to the field.
        spacing: Bytes from an element to the next.
        type: The array of the IR.
    """

    address: Atom | Hole
    extents: tuple[Atom | Hole, ...]
    offset: int
    spacing: int
    type: ArrayType


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array as the language has it.

    Attributes:
        element: The type of its elements.
        arrays: What holds it: one array per leaf of ``element``.
        axes: Per dimension of ``arrays`` that is no component: a fixed index, or a dimension of
            the view.
    """

    element: Element
    arrays: tuple[Var | PackedArray | Hole, ...]
    axes: tuple[Atom | Hole | Axis, ...]

    @property
    def free(self) -> list[int]:
        """The positions in ``axes`` that are dimensions of the view."""
        return [k for k, axis in enumerate(self.axes) if isinstance(axis, Axis)]

    @property
    def type(self) -> ArrayOf:
        """Its type as a user writes it."""
        tables = [a for a in self.axes if isinstance(a, Axis) and a.table is not None]
        return ArrayOf(self.element, len(self.free), is_indexed=bool(tables))

    @property
    def name(self) -> str:
        """The name of the parameter that it is a part of."""
        first = self.arrays[0] if self.arrays else None
        return first.name.split(".")[0] if isinstance(first, Var) else "array"


@dataclass(frozen=True, slots=True)
class Static:
    """A compile-time Python object: a type or a function."""

    obj: object


@dataclass(frozen=True, slots=True)
class ArrayChoice:
    """One of several arrays, where the path of a thread decides which.

    Attributes:
        type: Its type as a user writes it.
        number: The position in ``options``, an int32.
        options: Views of arrays, and at most one null array.
    """

    type: ArrayOf
    number: Atom | Hole
    options: tuple[ArrayView | Static, ...]

    @property
    def element(self) -> Element:
        """The type of its elements."""
        return next(o.element for o in self.options if isinstance(o, ArrayView))

    @property
    def free(self) -> list[int]:
        """The positions of its dimensions."""
        return list(range(self.type.ndim))

    @property
    def name(self) -> str:
        """The names of the parameters that it may be a part of."""
        return " or ".join(o.name for o in self.options if isinstance(o, ArrayView))


@dataclass(frozen=True, slots=True)
class NullArray:
    """What a field of type ``type`` is before an array is assigned: an array that is empty."""

    type: ArrayOf


@cache
def null_array(type_: ArrayOf) -> Static:
    """The value of an array field without an array; one object per type."""
    return Static(NullArray(type_))


# Names of Python classes whose objects error messages call functions.
_FUNCTIONS = (
    "function",
    "builtin_function_or_method",
    "LaunchEntry",
    "Function",
    "NativeFunction",
    "Builtin",
    "Intrinsic",
)
Leaf = Var | Const | UntypedLiteral
ArrayValue = ArrayView | ArrayChoice
Value = (
    Var
    | Const
    | UntypedLiteral
    | Hole
    | CompositeValue
    | ArrayView
    | ArrayChoice
    | Static
    | tuple["Value", ...]
)


def has_function(value: Value) -> bool:
    """Whether a function is a part of ``value``."""
    match value:
        case Static(obj):
            return not isinstance(obj, Scalar | Dense | StructType | NullArray | type)
        case CompositeValue(_, members):
            return any(has_function(m) for m in members)
        case tuple():
            return any(has_function(m) for m in value)
        case _:
            return False


def _mapped(value: Value, change: Callable[[Any], Any]) -> Value:
    """``value`` with ``change`` of every leaf or hole, in order."""
    match value:
        case CompositeValue(type_, members):
            return CompositeValue(type_, tuple(_mapped(m, change) for m in members))
        case ArrayView(element, arrays, axes):
            found = tuple(_mapped_array(a, change) for a in arrays)
            return ArrayView(element, found, tuple(_mapped_axis(a, change) for a in axes))
        case ArrayChoice(type_, number, options):
            number = change(number)
            found = tuple(_mapped(o, change) for o in options)
            return ArrayChoice(type_, number, as_type("tuple[ArrayView | Static, ...]", found))
        case tuple():
            return tuple(_mapped(m, change) for m in value)
        case Static():
            return value
        case _:
            return change(value)


def _mapped_array(
    array: Var | PackedArray | Hole, change: Callable[[Any], Any]
) -> Var | PackedArray | Hole:
    if not isinstance(array, PackedArray):
        return change(array)
    extents = tuple(change(n) for n in array.extents)
    return replace(array, address=change(array.address), extents=extents)


def _mapped_axis(axis: Atom | Hole | Axis, change: Callable[[Any], Any]) -> Atom | Hole | Axis:
    if not isinstance(axis, Axis):
        return change(axis)
    parts = (axis.start, axis.step, axis.extent, axis.table)
    return Axis(*(None if p is None else change(p) for p in parts))


def flatten(value: Value) -> tuple[Value, list[Leaf]]:
    """The skeleton of ``value``, with a hole per leaf, and the leaves in order."""
    leaves: list[Leaf] = []

    def take(leaf: Leaf) -> Hole:
        leaves.append(leaf)
        return HOLE

    return _mapped(value, take), leaves


def unflatten(skeleton: Value, leaves: Iterable[Leaf]) -> Value:
    """The value with ``leaves`` in the holes of ``skeleton``."""
    source = iter(leaves)
    out = _mapped(skeleton, lambda part: next(source) if part is HOLE else part)
    assert next(source, None) is None
    return out


def split(value: Value) -> tuple[Value, list[Leaf]]:
    """As ``flatten``, with arrays left where they are."""
    leaves: list[Leaf] = []

    def take(leaf: Leaf) -> Leaf | Hole:
        if isinstance(leaf, Var) and not isinstance(leaf.type, Scalar):
            return leaf
        leaves.append(leaf)
        return HOLE

    return _mapped(value, take), leaves


def substituted(value: Value, arrays: Mapping[Var, Leaf]) -> Value:
    """``value`` with other arrays in the place of those in ``arrays``."""
    return _mapped(value, lambda leaf: arrays.get(leaf, leaf) if isinstance(leaf, Var) else leaf)


def is_scalar(value: Value) -> bool:
    """Whether ``value`` is one scalar."""
    return isinstance(value, UntypedLiteral | Const) or (
        isinstance(value, Var) and isinstance(value.type, Scalar)
    )


def hole_count(skeleton: Value) -> int:
    """How many leaves a value of this skeleton has."""
    holes: list[Hole] = []
    _mapped(skeleton, holes.append)
    return len(holes)


def build(type_: Element, scalars: Iterator[Leaf]) -> Value:
    """A value of ``type_`` of its scalars, in order."""
    match type_:
        case Scalar():
            return next(scalars)
        case Dense():
            return CompositeValue(type_, tuple(next(scalars) for _ in range(type_.size)))
        case StructType(fields=fields):
            members: list[Value] = []
            for _, member in fields:
                is_array = isinstance(member, ArrayOf)
                members.append(null_array(member) if is_array else build(member, scalars))
            return CompositeValue(type_, tuple(members))


def members_of(value: Value) -> tuple[Value, ...] | None:
    """The members of a tuple or the components of a vector; None of other values."""
    match value:
        case tuple():
            return value
        case CompositeValue(Dense(shape=(_,)), members):
            return members
        case _:
            return None


def describe_type(value: Value) -> str:
    """The type of ``value`` in words."""
    match value:
        case UntypedLiteral():
            return f"{value.kind} literal {value.value}"
        case tuple():
            return f"a tuple of {len(value)}" if value else "nothing"
        case CompositeValue(type_, _):
            return repr(type_)
        case ArrayView() | ArrayChoice():
            return f"an {value.type}"
        case Static(obj):
            return describe_object(obj)
        case Hole():
            return "a value"
        case Var() | Const():
            is_array = isinstance(value.type, ArrayType)
            return f"an {value.type}" if is_array else str(value.type)


def describe_object(obj: object) -> str:
    """A Python object in words, for error messages."""
    kind = type(obj).__name__
    match obj:
        case Scalar() | Dense() | StructType():
            return f"the type {obj}"
        case NullArray(type_):
            return f"an {type_} that no array was assigned to"
        case type():
            return f"the type {obj.__name__}"
        case ModuleType():
            return "a module"
        case _ if kind in _FUNCTIONS:
            return "a function"
        case _ if kind == "Kernel":
            return "a kernel"
        case _:
            return f"a Python object of type {kind}"
