"""Arrays of which the path decides: a number and the arrays that it may stand for.

Paths that meet with different arrays under one name are joined into an ``ArrayChoice``; an access
to it is a branch per array, so that derivatives and analyses of accesses see plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.builtins import BUILTINS
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.value import (
    ArrayChoice,
    ArrayView,
    Axis,
    CompositeValue,
    Leaf,
    NullArray,
    Static,
    Value,
    flatten,
    is_scalar,
    null_array,
    unflatten,
)
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.language.types import ArrayOf, Scalar, StructType, int32, int64, uint64

_EQUAL, _WHERE = BUILTINS["equal"].op, BUILTINS["where"].op

Option = ArrayView | Static


def joined(scope: Scope, one: Value, other: Value, eqns: list[Eqn]) -> tuple[Value, Value]:
    """``one`` and ``other``, of one name on two paths, with the same arrays in the same places.

    What cannot be joined is given back as it is, and so is what needs no choice. Code that the
    path of ``other`` needs is added to ``eqns``.
    """
    match one, other:
        case CompositeValue(), CompositeValue() if one.type == other.type:
            ones, others = _joined_members(scope, one.members, other.members, eqns)
            return CompositeValue(one.type, ones), CompositeValue(other.type, others)
        case tuple(), tuple() if len(one) == len(other):
            return _joined_members(scope, one, other, eqns)
        case _:
            return _joined_arrays(scope, one, other, eqns)


def _joined_members(
    scope: Scope, ones: Sequence[Value], others: Sequence[Value], eqns: list[Eqn]
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    pairs = [joined(scope, a, b, eqns) for a, b in zip(ones, others, strict=True)]
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def joins(one: Value, other: Value) -> bool:
    """Whether both are of one type but for the arrays that they are or hold."""
    match one, other:
        case CompositeValue(), CompositeValue():
            return one.type == other.type and (
                not isinstance(one.type, StructType) or joins(one.members, other.members)
            )
        case tuple(), tuple():
            return len(one) == len(other) and all(map(joins, one, other))
        case (CompositeValue() | tuple(), _) | (_, CompositeValue() | tuple()):
            return False
        case _:
            return _type_of(one) == _type_of(other)


def _joined_arrays(scope: Scope, one: Value, other: Value, eqns: list[Eqn]) -> tuple[Value, Value]:
    type_ = _type_of(one)
    if type_ is None or type_ != _type_of(other) or _place(one) == _place(other):
        return one, other
    mine, theirs = _options(one), _options(other)
    # The numbers of a choice stay if the other path has one array.
    is_swapped = isinstance(other, ArrayChoice) and not isinstance(one, ArrayChoice)
    options = list(theirs if is_swapped else mine)
    at: list[int] = []
    for option in mine if is_swapped else theirs:
        alike = [k for k, o in enumerate(options) if k not in at and _place(o) == _place(option)]
        at.append(alike[0] if alike else len(options))
        if not alike:
            options.append(option)
    if not any(isinstance(o, ArrayView) for o in options):
        return one, other
    positions = list(range(len(options)))
    own, their = (at, positions) if is_swapped else (positions, at)
    left = _chosen(scope, type_, one, own[: len(mine)], options, eqns)
    return left, _chosen(scope, type_, other, their[: len(theirs)], options, eqns)


def _chosen(
    scope: Scope,
    type_: ArrayOf,
    value: Value,
    at: Sequence[int],
    options: Sequence[Option],
    eqns: list[Eqn],
) -> ArrayChoice:
    """``value``, whose options are those ``at`` these positions, as one of ``options``."""
    held = dict(zip(at, _options(value), strict=True))
    members = tuple(held.get(k) or _unread(o, held[at[0]]) for k, o in enumerate(options))
    if not isinstance(value, ArrayChoice):
        return ArrayChoice(type_, Const(int32, at[0]), members)
    assert isinstance(value.number, Var | Const)
    number = value.number
    if list(at) != list(range(len(at))):
        with scope.builder.into(eqns):
            number = _renumbered(scope, number, at)
    return ArrayChoice(type_, number, members)


def _renumbered(scope: Scope, number: Atom, at: Sequence[int]) -> Atom:
    """``at[number]``."""
    found: Atom = Const(int32, at[-1])
    for k in range(len(at) - 2, -1, -1):
        is_chosen = scope.builder.emit(_EQUAL, number, Const(int32, k))
        found = scope.builder.emit(_WHERE, is_chosen, Const(int32, at[k]), found)
    return found


def _options(value: Value) -> tuple[Option, ...]:
    if isinstance(value, ArrayChoice):
        return value.options
    assert isinstance(value, ArrayView | Static)
    return (value,)


def _type_of(value: Value) -> ArrayOf | None:
    """The type of an array that may be chosen; None of everything else."""
    match value:
        case ArrayView():
            is_indexed = any(isinstance(a, Axis) and a.table is not None for a in value.axes)
            return None if is_indexed else value.type
        case ArrayChoice(type_) | Static(NullArray(type_)):
            return type_
        case _:
            return None


def _place(value: Value) -> tuple[Value, list[Leaf]]:
    """What tells two arrays apart whose numbers (indices, extents, addresses) may differ."""
    skeleton, leaves = flatten(value)
    return skeleton, [leaf for leaf in leaves if not is_scalar(leaf)]


def _unread(option: Option, chosen: Option) -> Option:
    """``option`` on a path that has ``chosen`` instead: its numbers are never read.

    They are those of ``chosen`` if that has numbers of the same types. Where paths exchange arrays
    of one index, all paths then have that index for each array, and it remains known.
    """
    skeleton, leaves = flatten(option)
    wanted, given = _varying(leaves), _varying(flatten(chosen)[1])
    is_alike = [dtype for _, dtype in wanted] == [dtype for _, dtype in given]
    numbers: list[Leaf] = [var for var, _ in given] if is_alike else [zero(d) for _, d in wanted]
    instead = dict(zip((var for var, _ in wanted), numbers, strict=True))
    found = unflatten(skeleton, [instead.get(leaf, leaf) for leaf in leaves])
    assert isinstance(found, ArrayView | Static)
    return found


def _varying(leaves: Sequence[Leaf]) -> list[tuple[Leaf, Scalar]]:
    """The numbers among ``leaves`` that are not constant, and their types."""
    found = [leaf for leaf in leaves if isinstance(leaf, Var)]
    return [(leaf, leaf.type) for leaf in found if isinstance(leaf.type, Scalar)]


def per_option(
    scope: Scope, number: Atom, options: Sequence[tuple[int, Callable[[], Sequence[Atom]]]]
) -> tuple[Var, ...]:
    """The results of the option that ``number`` stands for; the others are not run.

    Each option has a number and emits its code, in this order; all give atoms of the same types.
    """
    (k, first), *rest = options
    assert rest
    is_chosen = scope.builder.emit(_EQUAL, number, Const(int32, k))
    then = _region(scope, first)
    following = rest[0][1] if len(rest) == 1 else lambda: per_option(scope, number, rest)
    return scope.builder.emit_if(is_chosen, then, _region(scope, following))


def _region(scope: Scope, option: Callable[[], Sequence[Atom]]) -> Region:
    with scope.builder.region() as eqns:
        found = tuple(option())
    return Region((), tuple(eqns), found)


def of_option(
    scope: Scope, choice: ArrayChoice, change: Callable[[ArrayView], ArrayView], ndim: int
) -> ArrayView | ArrayChoice:
    """``choice`` with ``change`` of every array, which leaves ``ndim`` dimensions."""
    type_ = ArrayOf(choice.element, ndim)
    assert isinstance(choice.number, Var | Const)
    options: list[Option] = []
    at: list[int] = []
    for k, given in enumerate(choice.options):
        option = change(given) if isinstance(given, ArrayView) else null_array(type_)
        alike = next((n for n, o in enumerate(options) if _place(o) == _place(option)), None)
        if alike is None:
            at.append(len(options))
            options.append(option)
            continue
        # One place, of which the number decides extents and steps.
        at.append(alike)
        is_chosen = scope.builder.emit(_EQUAL, choice.number, Const(int32, k))
        options[alike] = _either(scope, is_chosen, option, options[alike])
    number = choice.number
    if at != list(range(len(at))):
        number = _renumbered(scope, number, at)
    if len(options) == 1 and isinstance(options[0], ArrayView):
        return options[0]
    return ArrayChoice(type_, number, tuple(options))


def merged(scope: Scope, value: Value) -> Value:
    """``value`` whose choices have one option per array; arguments may have made two the same."""
    match value:
        case ArrayChoice(type_):
            return of_option(scope, value, lambda option: option, type_.ndim)
        case CompositeValue(StructType() as type_, members):
            return CompositeValue(type_, tuple(merged(scope, m) for m in members))
        case tuple():
            return tuple(merged(scope, m) for m in value)
        case _:
            return value


def _either(scope: Scope, is_first: Atom, first: Option, second: Option) -> Option:
    """Either of two arrays at one place."""
    skeleton, ones = flatten(first)
    leaves: list[Leaf] = []
    for one, other in zip(ones, flatten(second)[1], strict=True):
        if one is other or not (is_scalar(one) and is_scalar(other)):
            leaves.append(one)
            continue
        types = {a.type for a in (one, other) if isinstance(a, Var | Const)}
        dtype = int64 if int64 in types else int32
        is_address = uint64 in types
        assert isinstance(one, Var | Const)
        assert isinstance(other, Var | Const)
        pair = (one, other) if is_address else [scope.integer(a, dtype) for a in (one, other)]
        leaves.append(scope.builder.emit(_WHERE, is_first, *pair))
    found = unflatten(skeleton, leaves)
    assert isinstance(found, ArrayView | Static)
    return found
