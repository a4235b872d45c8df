"""How the loops of a kernel run, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import SrcLoc
from kernelcore.codegen.analysis.independent_loops import INDEPENDENT_LANES, IndependentLoop
from kernelcore.codegen.analysis.loop_dependence import (
    Dependence,
    VectorLoop,
    loop_dependences,
)
from kernelcore.codegen.analysis.panels import LEAST_ROWS_TRANSPOSED
from kernelcore.codegen.analysis.row_blocks import BlockedLoop, blocked_loops
from kernelcore.codegen.analysis.uniformity import (
    Strides,
    ends_together,
    lane_strides,
    stride_of,
)
from kernelcore.codegen.simd.cost_model import gains_as_vector, outer_loops
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.row_transfer import BLOCK
from kernelcore.codegen.simd.strategy import (
    VectorStrategy,
    bodies_for,
    loops_in_parts,
    rows_of_own_length,
)
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import LOOPS, OpKind
from kernelcore.ir.walk import walk_eqns, walk_paths

_IN_BLOCKS = f"all lanes of a gang iterate together, along rows in blocks of {BLOCK} iterations"
_BY_ROWS = f"{INDEPENDENT_LANES} or {LOOP_LANES} iterations at once, lane after lane of a gang"
_BY_ROWS_IF_LONG = (
    f"{_BY_ROWS}; fewer than {INDEPENDENT_LANES} iterations in blocks of {BLOCK}, in their order"
)
_IN_PARTS = f"{INDEPENDENT_LANES} or {LOOP_LANES} iterations at once"
_OWN_LENGTHS = f"from {INDEPENDENT_LANES} iterations on {_IN_PARTS}; fewer are added in their order"
_OUTER = f"{INDEPENDENT_LANES} or {LOOP_LANES} iterations at once, with the loops inside"
_INSIDE = "for all iterations of the loop around it at once"
_KEEPS = "in long rows it keeps values for later loops"
_TAKES = "in long rows it takes values that an earlier loop has kept"


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of the source.

    Attributes:
        loc: Where it is; None in code that the compiler made.
        depth: How many loops are around it.
        how: How its iterations run.
        why: What keeps them from running faster; empty if nothing does.
        trips: The iterations of one execution; None if they are known at run time only.
    """

    loc: SrcLoc | None
    depth: int
    how: str
    why: str
    trips: int | None


def loops(func: Func, strategy: VectorStrategy, trips: Mapping[Eqn, int | None]) -> Iterator[Loop]:
    """The loops of ``func``, compiled with ``strategy``, in program order."""
    strides = lane_strides(func) if strategy.gang > 1 else None
    in_blocks, outer = blocks_of(func, strategy), outer_of(func, strategy)
    dependences, in_parts = loop_dependences(func), loops_in_parts(func)
    own_lengths, kept = rows_of_own_length(func), bodies_for(func, strategy).kept
    roles = () if kept is None else ((_KEEPS, kept.keeping), (_TAKES, kept.taking))
    for eqn, path in walk_paths(func.body):
        if eqn.op.kind not in LOOPS:
            continue
        depth = sum(around.op.kind in LOOPS for around, _ in path)
        if strides is not None:
            along = in_blocks.get(eqn)
            how = _of_gangs(eqn, strides) if along is None else _along_rows(along)
            how += "".join(f"; {text}" for text, members in roles if eqn in members)
            why = ""
        elif eqn in in_parts:
            how, why = _OWN_LENGTHS if eqn in own_lengths else _IN_PARTS, ""
        elif eqn in outer or any(around in outer for around, _ in path):
            how, why = _OUTER if eqn in outer else _INSIDE, ""
        else:
            how, why = _of_threads(eqn, strategy, dependences.get(eqn))
        yield Loop(eqn.loc, depth, how, why, trips.get(eqn))


def _along_rows(loop: BlockedLoop) -> str:
    if loop.by_rows is None:
        return _IN_BLOCKS
    if not loop.by_rows.is_ordered_if_short:
        return _BY_ROWS
    if not loop.has_panels:
        return _BY_ROWS_IF_LONG
    return (
        "all lanes of a gang iterate together, over rows that are transposed once for many rows of "
        f"the grid; in launches of fewer than {LEAST_ROWS_TRANSPOSED} rows, or with more than "
        f"{loop.by_rows.most_in_panels} iterations, {_BY_ROWS_IF_LONG}"
    )


def _of_gangs(eqn: Eqn, strides: Strides) -> str:
    if eqn.op.kind is OpKind.WHILE:
        return "the lanes of a gang iterate until the last one is done"
    if ends_together(eqn, lambda atom: stride_of(strides, atom)):
        return "the lanes of a gang begin one after the other and end together"
    if all(stride_of(strides, atom) == 0 for atom in eqn.inputs[:3]):
        return "all lanes of a gang iterate together"
    return "the lanes of a gang iterate until the last one is done: their bounds differ"


def _of_threads(
    eqn: Eqn, strategy: VectorStrategy, found: VectorLoop | Dependence | None
) -> tuple[str, str]:
    if isinstance(found, VectorLoop) and strategy.loop_lanes > 1:
        return f"{LOOP_LANES} iterations at once", ""
    how = "one iteration after the other"
    if isinstance(found, Dependence):
        return how, found.value
    if found is None:
        return how, "the number of iterations of a while loop is known at its end only"
    if not gains_as_vector(found):
        return how, "too little arithmetic for the elements that have no fixed distance"
    if any(inner.op.kind in LOOPS for inner in walk_eqns(found.region)):
        return how, "it contains another loop"
    return how, "another loop of the kernel would lose by vectors"


def blocks_of(func: Func, strategy: VectorStrategy) -> Mapping[Eqn, BlockedLoop]:
    """The loops that gangs run along rows."""
    return blocked_loops(func, lane_strides(func)) if strategy.gang > 1 else {}


def outer_of(func: Func, strategy: VectorStrategy) -> Mapping[Eqn, IndependentLoop]:
    """The loops whose independent iterations are lanes."""
    return outer_loops(func) if strategy.loop_lanes > 1 else {}


def lane_strides_of(func: Func, strategy: VectorStrategy) -> Mapping[Eqn, Strides]:
    """For the accesses whose lanes run together, by how much values grow from lane to lane."""
    if strategy.gang > 1:
        along = dict.fromkeys(walk_eqns(func.body), lane_strides(func))
        for loop in blocks_of(func, strategy).values():
            if loop.by_rows is not None:
                along |= dict.fromkeys(walk_eqns(loop.by_rows.body), loop.by_rows.strides)
        return along
    if strategy.loop_lanes == 1:
        return {}
    found: dict[Eqn, Strides] = {}
    for body in loop_dependences(func).values():
        if isinstance(body, VectorLoop):
            found |= dict.fromkeys(walk_eqns(body.region), body.strides)
    for loop in outer_of(func, strategy).values():
        found |= dict.fromkeys(walk_eqns(loop.body), loop.strides)
    return found
