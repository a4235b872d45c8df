"""Which accesses of a kernel come to memory first, where fetching it ahead pays."""

from __future__ import annotations

from collections.abc import Iterator

from kernelcore.ir.core import Atom, Eqn, Func, Region
from kernelcore.ir.op import LOOPS, OpKind
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.index_offsets import definitions, position_of

# What loads the element that it accesses.
_LOADS = frozenset({OpKind.LOAD, OpKind.ATOMIC_ADD})


def first_accesses(func: Func) -> frozenset[Eqn]:
    """One access per array, of kernels that load elements of components or neighbouring rows.

    The grid goes from row to row, so that the last of several rows is new to the cache.
    """
    defined = definitions(func)
    rows: dict[tuple[Atom, ...], dict[tuple[int, ...], Eqn]] = {}
    gains = False
    for eqn in _outside_of_loops(func.body):
        array = eqn.inputs[0].type if eqn.op.kind in _LOADS else None
        if not isinstance(array, ArrayType) or not array.outer_ndim:
            continue
        place = position_of(eqn, defined)[: array.outer_ndim]
        near, offsets = (eqn.inputs[0], *(b for b, _ in place)), [c for _, c in place]
        found = rows.setdefault(near, {})
        found.setdefault(tuple(offsets[:-1]), eqn)
        gains = gains or bool(array.components) or len(found) > 1
    return frozenset(found[max(found)] for found in rows.values()) if gains else frozenset()


def _outside_of_loops(region: Region) -> Iterator[Eqn]:
    for eqn in region.eqns:
        yield eqn
        if eqn.op.kind not in LOOPS:
            for inner in eqn.regions:
                yield from _outside_of_loops(inner)
