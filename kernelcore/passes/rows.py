"""Which access of several to neighbouring rows of an array comes to the memory first."""

from __future__ import annotations

from collections.abc import Iterator

from kernelcore.ir.core import Atom, Eqn, Func, Region
from kernelcore.ir.op import OpKind
from kernelcore.passes.offsets import definitions, place_of
from kernelcore.types import ArrayType

# What loads the element that it accesses.
_LOADS = frozenset({OpKind.LOAD, OpKind.ATOMIC_ADD})
_LOOPS = frozenset({OpKind.FOR, OpKind.WHILE})


def first_rows(func: Func) -> frozenset[Eqn]:
    """One access per array that threads load at several rows near each other, as stencils do.

    The grid goes from row to row, so that the last of the rows is new to the cache.
    """
    defined = definitions(func)
    rows: dict[tuple[Atom, ...], dict[tuple[int, ...], Eqn]] = {}
    for eqn in _outside_of_loops(func.body):
        array = eqn.inputs[0] if eqn.inputs else None
        if array is None or not isinstance(array.type, ArrayType) or eqn.op.kind not in _LOADS:
            continue
        place = place_of(eqn, defined)[: array.type.outer_ndim]
        near, offsets = (array, *(base for base, _ in place)), [offset for _, offset in place]
        rows.setdefault(near, {}).setdefault(tuple(offsets[:-1]), eqn)
    if all(len(found) == 1 for found in rows.values()):
        return frozenset()
    return frozenset(found[max(found)] for found in rows.values())


def _outside_of_loops(region: Region) -> Iterator[Eqn]:
    for eqn in region.eqns:
        yield eqn
        if eqn.op.kind not in _LOOPS:
            for inner in eqn.regions:
                yield from _outside_of_loops(inner)
