"""Panels: the part of an array that the rows of a tile read alike, iteration after iteration.

    for k in range(n):
        total += a[i, k] * b[k, j]

All rows ``i`` read ``b[0:n, j:j + gang]``. Its rows are far apart in memory: where the distance is
a power of two, few of them fit a cache at the same time. A copy of it, the panel, is one piece
(``simd/panel_copies.py``). Where lanes go along rows of their own, as in ``a[i, k] * b[j, k]``, the
panel is the transposed part: a loop in blocks (``row_blocks.py``) would transpose it for each row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.analysis.uniformity import Strides, stride_of
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import FEW_TRIPS, WRITES, OpKind
from kernelcore.ir.walk import array_type, element_indices, walk_eqns
from kernelcore.passes.access.accumulation_plan import are_known, defining_eqns, launch_values

# Smaller elements are kept in another form in registers.
LEAST_BITS = 32
# The fewest rows below each other that pay for a copy (docs/decisions/281).
LEAST_ROWS_COPIED = 32
# The fewest rows of the grid that pay for transposing, and for how many iterations all transposed
# panels of a kernel have room. The order of sums depends on both (docs/decisions/283).
LEAST_ROWS_TRANSPOSED, MOST_TRANSPOSED = 16, 4096


@dataclass(frozen=True, slots=True)
class Panel:
    """Where the iterations of a loop find what a gang loads.

    Attributes:
        loads: The loads, which have the same indices.
        first: The address for the first iteration.
        step: The distance from iteration to iteration in bytes, as i64.
        may_be_in_place: Whether ``first`` may lie in the array itself, where inactive lanes must
            not read.
    """

    loads: tuple[Eqn, ...]
    first: str
    step: str
    may_be_in_place: bool = False


def panel_loads(func: Func, strides: Strides, others: Collection[Eqn]) -> Mapping[Eqn, list[Eqn]]:
    """By loop of ``func``, its loads of panels.

    Args:
        func: A kernel whose threads run several rows of the grid (``row_tiling.py``).
        strides: By how much values grow from lane to lane.
        others: Loops that are emitted in another way.
    """
    known, eqns = launch_values(func), list(walk_eqns(func.body))
    written = {e.inputs[0] for e in eqns if e.op.kind in WRITES}
    found: dict[Eqn, list[Eqn]] = {}
    for loop in func.body.eqns:
        if loop.op.kind is not OpKind.FOR or loop in others or FEW_TRIPS in loop.attrs:
            continue
        *ends, step = loop.inputs[:3]
        if not (isinstance(step, Const) and are_known(ends, known)):
            continue
        index = loop.regions[0].params[0]
        loads = [e for e in loop.regions[0].eqns if e.op.kind is OpKind.LOAD]
        loads = [e for e in loads if e.inputs[0] not in written and _is_row(e, index, strides)]
        loads = [e for e in loads if is_shared_by_rows(func, e, index)]
        if loads:
            found[loop] = loads
    return found


def _is_row(eqn: Eqn, index: Var, strides: Strides) -> bool:
    """Whether lanes load adjacent elements of row ``index`` of a matrix."""
    type_ = array_type(eqn)
    if type_.components or type_.dtype.bits < LEAST_BITS or type_.ndim < 2:
        return False
    *outer, last = element_indices(eqn)
    is_dense = stride_of(strides, last) == 1 and all(stride_of(strides, i) == 0 for i in outer)
    return is_dense and outer.count(index) == 1


def is_shared_by_rows(func: Func, eqn: Eqn, index: Var) -> bool:
    """Whether all rows of a tile load alike for ``eqn``, in a loop by ``index``.

    Only if its other indices are computed before the loop, without loads and without the row.
    """
    others = tuple(i for i in element_indices(eqn) if i is not index)
    makers = defining_eqns(func, others)
    made: set[Atom] = {out for e in makers for out in e.outputs}
    if any(isinstance(i, Var) and i not in made and i not in func.params for i in others):
        return False
    kinds = (OpKind.PURE, OpKind.CAST, OpKind.DIM)
    return all(
        e.op.kind in kinds or (e.op.kind is OpKind.TID and e.attrs["axis"] != func.rank - 2)
        for e in makers
    )
