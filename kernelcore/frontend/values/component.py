"""Components of composites: what an index, a slice or an attribute selects, and replaces."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from kernelcore.builtins import BUILTINS
from kernelcore.builtins.syntax import COMPARE
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.literal_types import UntypedLiteral, const
from kernelcore.frontend.values.value import Leaf
from kernelcore.ir.core import Atom
from kernelcore.language.conversion import places_of
from kernelcore.language.types import Dense, Scalar

T = TypeVar("T")

# A known index, the range of a slice, or an index that is known at run time only.
Index = int | range | Atom
_WHERE, _EQUAL = BUILTINS["where"].op, COMPARE[ast.Eq].op


def take(
    shape: Sequence[int],
    components: Sequence[T],
    indices: Sequence[Index],
    choose: Callable[[Atom, list[list[T]]], list[T]],
) -> tuple[tuple[int, ...], list[T]]:
    """The shape and the components that ``indices`` select of a composite of ``shape``.

    ``choose`` picks among the alternatives of an index that is not known.
    """
    if not indices:
        return tuple(shape), list(components)
    options = _split(shape, components)
    first, *rest = indices
    if isinstance(first, int):
        return take(shape[1:], options[first], rest, choose)
    if isinstance(first, range):
        parts = [take(shape[1:], options[k], rest, choose) for k in first]
        inner = parts[0][0] if parts else ()
        return (len(first), *inner), [one for _, part in parts for one in part]
    found = [take(shape[1:], option, rest, choose) for option in options]
    return found[0][0], choose(first, [part for _, part in found])


def put(
    shape: Sequence[int],
    components: Sequence[T],
    indices: Sequence[Index],
    new: Sequence[T],
    choose: Callable[[Atom, int, T, T], T],
) -> list[T]:
    """``components`` with those that ``indices`` select replaced by ``new``.

    ``choose(index, k, new, old)`` is the new component where ``index`` is ``k``, else the old one.
    """
    open_at = next((n for n, at in enumerate(indices) if not isinstance(at, int | range)), None)
    out = list(components)
    if open_at is None:
        _, positions = take(shape, range(len(components)), indices, lambda _, options: options[0])
        for position, one in zip(positions, new, strict=True):
            out[position] = one
        return out
    index = cast("Atom", indices[open_at])
    for k in range(shape[open_at]):
        known = (*indices[:open_at], k, *indices[open_at + 1 :])
        changed = put(shape, components, known, new, choose)
        out = [
            b if a is c else choose(index, k, a, b)
            for a, b, c in zip(changed, out, components, strict=True)
        ]
    return out


def _split(shape: Sequence[int], components: Sequence[T]) -> list[Sequence[T]]:
    size = len(components) // shape[0]
    return [components[k * size : (k + 1) * size] for k in range(shape[0])]


def of_shape(scalar: Scalar, shape: tuple[int, ...]) -> Scalar | Dense:
    """The type of what an index or slice selects."""
    if not shape:
        return scalar
    return Dense("vector" if len(shape) == 1 else "matrix", scalar, shape)


def attribute(type_: Dense, name: str) -> list[Index] | None:
    """The index of an attribute of a composite, or None for an unknown attribute.

    Several letters select several components: ``v.xy``; they must follow each other.
    """
    match type_.kind, name:
        case "transform", "p":
            return [range(3)]
        case "transform", "q":
            return [range(3, 7)]
        case (("vector" | "quaternion"), _):
            positions = places_of(name)
            if positions is None or max(positions) >= type_.size:
                return None
            return [positions[0] if len(positions) == 1 else positions]
        case _:
            return None


def has_letters(type_: Dense, name: str) -> bool:
    """Whether the letters of ``name`` are components of a vector or quaternion."""
    is_named = type_.kind in ("vector", "quaternion")
    return is_named and set(name) <= set("xyzw"[: type_.size])


def attribute_type(type_: Dense, name: str, plain: Scalar | Dense) -> Scalar | Dense:
    """The type of attribute ``name``, which would be ``plain`` for an index."""
    if type_.kind == "transform" and name == "q":
        return Dense("quaternion", type_.dtype, (4,))
    return plain


def choose_value(scope: Scope, index: Atom, options: list[list[Leaf]]) -> list[Leaf]:
    """The components of option number ``index``, which is known at run time only."""
    out = list(options[-1])
    for k in range(len(options) - 2, -1, -1):
        out = [select(scope, index, k, a, b) for a, b in zip(options[k], out, strict=True)]
    return out


def select(scope: Scope, index: Atom, k: int, new: Leaf, old: Leaf) -> Leaf:
    """``new`` where ``index`` is ``k``, else ``old``."""
    assert isinstance(index.type, Scalar)
    assert not isinstance(new, UntypedLiteral)
    assert not isinstance(old, UntypedLiteral)
    if new is old:
        return old
    is_k = scope.builder.emit(_EQUAL, index, const(index.type, k, None))
    return scope.builder.emit(_WHERE, is_k, new, old)
