"""Squares: several rows of the grid together, where lanes access elements that are a row apart.

    i, j = kc.tid()               for every ROWS rows of the grid, and every gang of columns j:
    y[i, j] = x[j, i]   becomes       for i in those rows:
                                          y[i, j] = x[j, i]

Lanes of that loop go along rows of ``x``, which it takes in blocks (``row_blocks.py``): it loads
neighbours, and transposes them in registers. Row by row, a gang would gather its elements from as
many cache lines as it has lanes, and use one element of each.
"""

from __future__ import annotations

from functools import lru_cache

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.arithmetic import add
from kernelcore.codegen.analysis.row_blocks import BlockedLoop, blocked_loops
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.simd.gang_work import scattered_accesses
from kernelcore.codegen.simd.row_transfer import BLOCK
from kernelcore.ir.core import Const, Eqn, Func, Region, Var
from kernelcore.ir.op import FOR, LOOPS, TID, AddForm, OpKind
from kernelcore.ir.walk import array_type, clone_eqn, replace_body, walk_eqns
from kernelcore.language.types import int32
from kernelcore.passes.access.accumulation_plan import form_of

ROWS = BLOCK


@dataclass(frozen=True, slots=True)
class Squares:
    """A kernel whose threads run ``ROWS`` rows of the grid, from their own on.

    Attributes:
        func: The kernel.
        loop: Its loop over these rows.
        blocked: How gangs run it.
    """

    func: Func
    loop: Eqn
    blocked: BlockedLoop


@lru_cache(maxsize=4)
def squares_of(func: Func, least_masked_bytes: int = 1) -> Squares | None:
    """``func`` for squares; None if these would not load and store adjacent elements alone.

    The processor has masked accesses for elements of ``least_masked_bytes`` and more.
    """
    if not can_tile_rows(func):
        return None
    eqns = list(walk_eqns(func.body))
    if any(e.op.kind in LOOPS for e in eqns) or not scattered_accesses(func, lane_strides(func)):
        return None
    added = (e for e in eqns if e.op.kind is OpKind.ATOMIC_ADD)
    if any(form_of(e) is not AddForm.OWNED for e in added):
        return None
    walk = _over_rows(func)
    strides = lane_strides(walk)
    (loop,) = (e for e in walk.body.eqns if e.op.kind is OpKind.FOR)
    blocked = blocked_loops(walk, strides).get(loop)
    if blocked is None or scattered_accesses(walk, strides):
        return None
    sizes = (array_type(s.eqns[0]).dtype.size_bytes for s in blocked.streams)
    if min(sizes) < least_masked_bytes:
        return None
    return Squares(walk, loop, replace(blocked, by_rows=None))


def _over_rows(func: Func) -> Func:
    """``func``, which has no loops, with one over ``ROWS`` rows of the grid."""
    first, step, row = Var(int32, "first"), Var(int32, "step"), Var(int32, "row")
    inside: list[Eqn] = [Eqn(add.op, (first, step), (row,))]
    given: dict[Var, Var | Const] = {}
    for eqn in func.body.eqns:
        if eqn.op.kind is OpKind.TID and eqn.attrs["axis"] == func.rank - 2:
            given[eqn.out] = row
        else:
            inside.append(clone_eqn(eqn, given))
    bounds = tuple(Const(int32, n) for n in (0, ROWS, 1))
    loop = Eqn(FOR, bounds, (), regions=(Region((step,), tuple(inside)),))
    tid = Eqn(TID, (), (first,), attrs={"axis": func.rank - 2})
    return replace_body(func, Region(func.params, (tid, loop), ()))
