"""Parts of composite values and arrays: what ``x[...]`` and ``x.name`` select."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelTypeError, SrcLoc, suggestion
from kernelcore.builtins import BUILTINS
from kernelcore.frontend.expressions.apply import index
from kernelcore.frontend.scope import Scope, scalar, settle
from kernelcore.frontend.values import component
from kernelcore.frontend.values.array_view import ArraySlice
from kernelcore.frontend.values.component import Index
from kernelcore.frontend.values.literal_types import UntypedLiteral, const
from kernelcore.frontend.values.value import CompositeValue, Value, describe_type, flatten
from kernelcore.ir.core import Atom, Const
from kernelcore.language.types import Dense, Member, Scalar, StructType, int32

_CLAMP = BUILTINS["clamp"].op


@dataclass(frozen=True, slots=True)
class Slice:
    """A lowered slice; omitted parts are None."""

    lower: Value | None
    upper: Value | None
    step: Value | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One index or slice between brackets, and where it stands."""

    value: Value | Slice
    loc: SrcLoc | None


@dataclass(frozen=True, slots=True)
class Selection:
    """A field or components of a composite, and the type of that part."""

    key: str | tuple[Index, ...]
    type: Member


def select_field(type_: Dense | StructType, node: ast.Attribute, loc: SrcLoc | None) -> Selection:
    """The selection of an attribute.

    Raises:
        KernelTypeError: There is no such attribute.
    """
    if isinstance(type_, StructType):
        found = type_.field(node.attr)
        if found is not None:
            return Selection(node.attr, found)
        names = [name for name, _ in type_.fields]
        remedy = suggestion(node.attr, names, f"it has {_field_names(type_)}")
        raise KernelTypeError(f"struct {type_} has no field '{node.attr}'", loc, remedy)
    indices = component.attribute(type_, node.attr)
    if indices is None and component.has_letters(type_, node.attr):
        parts = ", ".join(f"{ast.unparse(node.value)}.{letter}" for letter in node.attr)
        raise KernelTypeError(
            f"the components of '.{node.attr}' do not follow each other",
            loc,
            f"make a vector of them: vector({parts})",
        )
    if indices is None:
        known = {"vector": "xyzw"[: type_.size], "quaternion": "xyzw"}.get(type_.kind, "")
        names = {"transform": ".p, .q"}.get(type_.kind, ", ".join(f".{c}" for c in known))
        raise KernelTypeError(
            f"{type_} has no attribute '{node.attr}'",
            loc,
            f"it has {names} and indices" if names else "index it: m[i, j]",
        )
    plain = _component_type(type_, indices)
    return Selection(tuple(indices), component.attribute_type(type_, node.attr, plain))


def select_components(
    scope: Scope, type_: Dense | StructType, entries: Sequence[Entry], loc: SrcLoc | None
) -> Selection:
    """The selection of the components that ``entries`` name.

    Raises:
        KernelTypeError: ``type_`` does not take them.
    """
    if isinstance(type_, StructType):
        raise KernelTypeError(
            f"struct {type_} cannot be indexed", loc, f"it has {_field_names(type_)}"
        )
    if len(entries) > len(type_.extents):
        wanted = len(type_.extents)
        raise KernelTypeError(
            f"{type_} takes {wanted} {'index' if wanted == 1 else 'indices'}, found {len(entries)}",
            loc,
            "write v[i] for a vector, m[i, j] for a matrix",
        )
    indices = [
        _component_index(scope, type_, entry, n)
        for entry, n in zip(entries, type_.extents, strict=False)
    ]
    return Selection(tuple(indices), _component_type(type_, indices))


def _field_names(type_: StructType) -> str:
    return ", ".join(f".{name}" for name, _ in type_.fields)


def _component_type(type_: Dense, indices: Sequence[Index]) -> Scalar | Dense:
    positions = list(range(type_.size))
    shape, _ = component.take(type_.extents, positions, indices, lambda _, options: options[0])
    return component.of_shape(type_.scalar, shape)


def _component_index(scope: Scope, type_: Dense, entry: Entry, extent: int) -> Index:
    loc, found = entry.loc, entry.value
    if isinstance(found, Slice):
        parts = (found.lower, found.upper, found.step)
        known = [None if p is None else _literal(p, loc) for p in parts]
        if known[2] == 0:
            raise _zero_step(loc)
        positions = range(extent)[slice(*known)]
        if not positions:
            known = f"its components are 0 to {extent - 1}" if extent else "it has no components"
            raise KernelTypeError(f"an empty slice of {type_}", loc, known)
        return positions
    value = scalar(found, loc)
    if isinstance(value, UntypedLiteral | Const):
        at = _literal(value, loc)
        if extent == 0:
            raise KernelTypeError(
                f"{type_} has no components", loc, "give it a length of 1 or more, or leave it out"
            )
        if not -extent <= at < extent:
            raise KernelTypeError(
                f"index {at} is outside of {type_}", loc, f"write an index from 0 to {extent - 1}"
            )
        return at % extent
    return index(scope, value, loc)


def _zero_step(loc: SrcLoc | None) -> KernelTypeError:
    return KernelTypeError("the step of a slice is zero", loc, "write a step such as 2 or -1")


def _literal(value: Value, loc: SrcLoc | None) -> int:
    """A compile-time integer."""
    number = value.value if isinstance(value, UntypedLiteral | Const) else None
    if isinstance(number, bool) or not isinstance(number, int):
        raise KernelTypeError(
            f"expected an integer that is known at compile time, found {describe_type(value)}",
            loc,
            "write literals in slices of vectors and matrices",
        )
    return number


def part(scope: Scope, value: CompositeValue, selection: Selection) -> Value:
    """The part of ``value`` that ``selection`` leads to."""
    if isinstance(selection.key, str):
        assert isinstance(value.type, StructType)
        return value.members[_position(value.type, selection.key)]
    assert isinstance(value.type, Dense)
    _, leaves = flatten(value)
    choose = partial(component.choose_value, scope)
    _, found = component.take(value.type.extents, leaves, selection.key, choose)
    return (
        CompositeValue(selection.type, tuple(found))
        if isinstance(selection.type, Dense)
        else found[0]
    )


def replaced(scope: Scope, value: Value, path: Sequence[Selection], new: Value) -> Value:
    """``value`` with the part that ``path`` leads to replaced by ``new``."""
    if not path:
        return new
    assert isinstance(value, CompositeValue)
    selection, *rest = path
    inner = replaced(scope, part(scope, value, selection), rest, new)
    if isinstance(selection.key, str):
        assert isinstance(value.type, StructType)
        members = list(value.members)
        members[_position(value.type, selection.key)] = inner
        return CompositeValue(value.type, tuple(members))
    assert isinstance(value.type, Dense)
    choose = partial(component.select, scope)
    leaves, fresh = flatten(value)[1], flatten(inner)[1]
    return CompositeValue(
        value.type, tuple(component.put(value.type.extents, leaves, selection.key, fresh, choose))
    )


def _position(type_: StructType, name: str) -> int:
    return [field for field, _ in type_.fields].index(name)


def array_index(scope: Scope, entry: Entry) -> Atom | ArraySlice:
    """An index or a slice of an array.

    Raises:
        KernelTypeError: It is no integer, or the step of a slice is zero.
    """
    loc, found = entry.loc, entry.value
    if not isinstance(found, Slice):
        return index(scope, found, loc)
    step: int | Atom = 1
    if isinstance(found.step, UntypedLiteral | Const):
        step = _literal(found.step, loc)
    elif found.step is not None:
        step = scope.integer(index(scope, found.step, loc), int32)
    if step == 0:
        raise _zero_step(loc)
    lower, upper = (_bound(scope, end, loc) for end in (found.lower, found.upper))
    return ArraySlice(lower, upper, step)


def _bound(scope: Scope, end: Value | None, loc: SrcLoc | None) -> Atom | None:
    if end is None:
        return None
    one = scalar(end, loc)
    # Negative ends of slices count from the last element.
    if isinstance(one, UntypedLiteral) and one.kind == "int":
        return settle(one, loc)
    at = index(scope, one, loc)
    dtype = scope.inference.current_type(one)
    if isinstance(at, Const) or at.type == int32:
        return at
    # Slices stop at the end of the array, so ends of 64 bits may be clamped to int32.
    low = const(dtype, max(int32.limits[0], dtype.limits[0]), loc)
    high = const(dtype, int32.limits[1], loc)
    return scope.integer(scope.builder.emit(_CLAMP, settle(one, loc), low, high), int32)
