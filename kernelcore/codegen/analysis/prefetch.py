"""Which accesses of a kernel come to memory first, where fetching it ahead pays."""

from __future__ import annotations

from kernelcore.codegen.analysis.row_blocks import RowStream, blocked_loops
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.ir.core import Atom, Eqn, Func, Var
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
    """The first access to each array that a loop down its rows comes to before any other loop.

    The hardware fetches ahead for loops that go up (docs/decisions/211).
    """
    loops = blocked_loops(func, lane_strides(func)).values()
    first: dict[Var, RowStream] = {}
    for stream in (s for loop in loops if loop.by_rows is not None for s in loop.streams):
        first.setdefault(stream.array, stream)
    return frozenset(s.eqns[0] for s in first.values() if s.is_outermost and s.step < 0)
