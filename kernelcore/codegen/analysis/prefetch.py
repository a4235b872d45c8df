"""Which accesses of a kernel come to memory first, where fetching it ahead pays."""

from __future__ import annotations

from kernelcore.codegen.analysis.row_blocks import blocked_loops
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.ir.core import Atom, Eqn, Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import is_in_loop, walk_paths
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
    for eqn, path in walk_paths(func.body):
        array = eqn.inputs[0].type if eqn.op.kind in _LOADS else None
        if not isinstance(array, ArrayType) or not array.outer_ndim or is_in_loop(path):
            continue
        place = position_of(eqn, defined)[: array.outer_ndim]
        near, offsets = (eqn.inputs[0], *(b for b, _ in place)), [c for _, c in place]
        found = rows.setdefault(near, {})
        found.setdefault(tuple(offsets[:-1]), eqn)
        gains = gains or bool(array.components) or len(found) > 1
    return frozenset(found[max(found)] for found in rows.values()) if gains else frozenset()


def first_in_rows(func: Func) -> frozenset[Eqn]:
    """One access per array of which loops of ``func`` go along rows, if fetching it ahead pays.

    The hardware fetches ahead for the first loop of a gang, if that goes up. It has lost track of
    the arrays of later loops when the next gang comes to them (docs/decisions/211).
    """
    loops = blocked_loops(func, lane_strides(func)).values()
    along = [loop.streams for loop in loops if loop.by_rows is not None]
    first = {s.array: s.eqns[0] for streams in reversed(along) for s in streams if s.is_outermost}
    for stream in along[0] if along else ():
        if stream.step > 0:
            first.pop(stream.array, None)
    return frozenset(first.values())
