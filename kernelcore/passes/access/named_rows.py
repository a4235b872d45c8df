"""Named rows: arrays whose last indices are constants wherever a kernel uses them.

As ``x[i, 0]``, or ``r[i, 2, 1]``, where the matrix is a row of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, ATOMICS, OpKind
from kernelcore.ir.walk import array_type, element_indices, rewrite, walk_eqns
from kernelcore.language.types import ArrayType

# The indices along the last axes that accesses of an array name.
Places = set[tuple[int, ...]]

# As many axes as elements of several components have.
MOST_AXES = 2
# Atomics have no form for elements of several components.
_PLAIN = ACCESSES - ATOMICS


def with_rows(func: Func) -> Func:
    """``func`` with the types of its arrays saying how long the rows are that it names.

    Derived kernels, which may name less of a row, inherit the types.
    """
    types: dict[Var, ArrayType] = {}
    for param, places in named_places(func).items():
        type_ = param.type
        assert isinstance(type_, ArrayType)
        named = _whole(places)
        if named and not are_within(places, type_.named):
            types[param] = replace(type_, named=named)
    return with_types(func, types)


def are_within(places: Places, extents: tuple[int, ...]) -> bool:
    """Whether ``places`` have constants along as many axes as ``extents``, and within these."""
    if not extents:
        return False
    return all(
        len(place) >= len(extents)
        and all(i < n for i, n in zip(place[-len(extents) :], extents, strict=True))
        for place in places
    )


def with_types(func: Func, types: Mapping[Var, ArrayType]) -> Func:
    """``func`` with other types of some of its parameters."""
    if not types:
        return func
    typed = {p: Var(type_, p.name) for p, type_ in types.items()}
    body = rewrite(func.body, lambda eqn: eqn, dict[Var, Atom](typed))
    params = tuple(typed.get(p, p) for p in func.params)
    return replace(func, body=replace(body, params=params))


def named_places(func: Func) -> dict[Var, Places]:
    """The last indices of arrays of numbers, where these are constants wherever they are used."""
    found: dict[Var, Places] = {}
    for param in func.params:
        if isinstance(param.type, ArrayType) and param.type.ndim > 1 and not param.type.components:
            found[param] = set()
    for eqn in walk_eqns(func.body) if found else ():
        for at, atom in enumerate(eqn.inputs):
            if not (isinstance(atom, Var) and atom in found) or eqn.op.kind is OpKind.DIM:
                continue
            place = _last_indices(eqn) if at == 0 else ()
            if place:
                found[atom].add(place)
            else:
                del found[atom]
    return found


def _last_indices(eqn: Eqn) -> tuple[int, ...]:
    """The constant indices along the last axes of what ``eqn`` accesses, without the first axis."""
    if eqn.op.kind not in _PLAIN or not isinstance(eqn.inputs[0], Var):
        return ()
    place: tuple[int, ...] = ()
    for index in reversed(element_indices(eqn)[1 : array_type(eqn).ndim]):
        if len(place) == MOST_AXES or not (isinstance(index, Const) and index.value >= 0):
            break
        place = (int(index.value), *place)
    return place


def _whole(places: Places) -> tuple[int, ...]:
    """The extents along the most last axes whose every place is in ``places``.

    Empty if there are no such axes.
    """
    for axes in range(min(map(len, places), default=0), 0, -1):
        ends = {place[-axes:] for place in places}
        extents = tuple(max(index) + 1 for index in zip(*ends, strict=True))
        if extents[0] > 1 and ends == set(product(*map(range, extents))):
            return extents
    return ()
