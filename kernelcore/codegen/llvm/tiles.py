"""Code of tiles: gangs that run several rows of the grid together, with panels of what these read.

Rows that fill no tile run in one that leaves some out, or are left to other code. With transposed
panels, which other code would make for every row, they run one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.codegen.analysis.component_groups import rows_apart, whole_elements
from kernelcore.codegen.analysis.independent_loops import IndependentLoop
from kernelcore.codegen.analysis.panels import LEAST_ROWS_TRANSPOSED, Panel, panel_loads
from kernelcore.codegen.analysis.row_blocks import BlockedLoop, RowStream, blocked_loops
from kernelcore.codegen.analysis.row_tiling import is_idempotent, may_run_fewer_rows, tile_rows
from kernelcore.codegen.analysis.uniformity import Strides, lane_strides
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter
from kernelcore.codegen.reduction.accumulation import Accumulation
from kernelcore.codegen.simd.bodies import can_mask
from kernelcore.codegen.simd.gang_loop import Body
from kernelcore.codegen.simd.gang_work import is_component_group
from kernelcore.codegen.simd.panel_copies import StripPanels, transposed_panels
from kernelcore.codegen.simd.partial_sums import any_long
from kernelcore.codegen.simd.tile_loop import Tile
from kernelcore.ir.core import Eqn, Func, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import int32

_Packed = Mapping[Var, ArrayValue]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A kernel whose threads run some rows.

    Attributes:
        func: The kernel.
        strides: By how much values grow from lane to lane.
        blocked: Its loops along rows of lanes that run in blocks.
        transposed: Those that find what they read there in panels, and what that is.
    """

    func: Func
    strides: Strides
    blocked: Mapping[Eqn, BlockedLoop]
    transposed: Mapping[Eqn, Sequence[RowStream]]

    def body(self, e: Emitter, packed: _Packed) -> Body:
        """What emits it for ``packed`` arrays."""
        whole, rows = whole_elements(self.func), rows_apart(self.func)
        facts = replace(e.facts, elements=whole, rows=rows)
        plan = Accumulation(self.func)

        def emit() -> None:
            e.bind_all(packed)
            with e.other_code(self.strides, facts, plan), e.special_loops({}, self.blocked):
                e.region(self.func.body)

        return emit


def tile_of(
    e: Emitter,
    func: Func,
    rows: int,
    packed: _Packed,
    is_packed: str,
    in_panels: Mapping[Eqn, IndependentLoop],
    may_be_short: bool,
) -> Tile:
    """Gangs of several rows of ``func``, for packed arrays to which no other threads add.

    The loops ``in_panels`` find what they read along rows in panels. If rows ``may_be_short``,
    shorter than a gang, gangs have a mask.
    """
    overlaps = is_idempotent(func) and not in_panels
    last = Var(int32, "last") if not in_panels and may_run_fewer_rows(func) else None
    together = _rows(func, rows, in_panels, last)
    alone = _rows(func, 1, in_panels) if in_panels and rows > 1 else None
    most = min((loop.most_in_panels for loop in in_panels.values()), default=0)
    special = {*together.blocked, *together.transposed}
    # The last gang of a row is under a mask then, and other panels are read whole.
    loads: Mapping[Eqn, Sequence[Eqn]] = {}
    if not in_panels:
        loads = panel_loads(together.func, together.strides, special)
    is_possible = is_packed
    if in_panels:
        in_order = e.op(f"xor i1 {any_long(e, func, in_panels)}, true")
        is_possible = e.op(f"and i1 {is_possible}, {in_order}")
        # Panels are made before the rows run. Where there are several rows, none may read what
        # another one stores, but a single row may store to what it reads itself.
        many = e.op(f"icmp uge i64 {e.grid_rows}, {LEAST_ROWS_TRANSPOSED}")
        is_possible = e.op(f"and i1 {is_possible}, {many}")
    assert e.accumulation is not None
    for is_shared in e.accumulation.shared.values():
        is_alone = e.op(f"xor i1 {is_shared}, true")
        is_possible = e.op(f"and i1 {is_possible}, {is_alone}")
    facts, plan = e.facts, Accumulation(together.func)

    strips = _Strips(e, together, packed, plan, loads) if loads else None

    def prepare() -> None:
        if strips is not None:
            e.panels = strips.panels.at_gang()
            return
        e.bind_all(packed)
        with e.other_code(together.strides, facts, plan):
            panels = transposed_panels(e, together.func, together.transposed, most)
        e.panels = panels if alone is None else panels | _like(panels, together, alone)

    return Tile(
        rows,
        e.gang,
        strips,
        prepare,
        together.body(e, packed),
        is_possible,
        overlaps_tail=overlaps,
        masks_short=may_be_short and overlaps and _suits_masks(func, e.facts.least_masked_bytes),
        masks_tail=bool(in_panels),
        single=None if alone is None else alone.body(e, packed),
        last=last,
    )


def _suits_masks(func: Func, least_masked_bytes: int) -> bool:
    """Whether gangs of ``func`` take no longer under a mask that is not known to have all lanes."""
    eqns, strides = list(walk_eqns(func.body)), lane_strides(func)
    # Masks of component groups are shuffled, and branches are taken for lanes that are active.
    return can_mask(eqns, least_masked_bytes) and not any(
        e.op.kind is OpKind.IF or is_component_group(e, strides) for e in eqns
    )


class _Strips:
    """The ``Strips`` of a tile with panels that are not transposed."""

    def __init__(
        self,
        e: Emitter,
        tiled: _Rows,
        packed: _Packed,
        plan: Accumulation,
        loads: Mapping[Eqn, Sequence[Eqn]],
    ) -> None:
        self.panels = StripPanels(e, tiled.func, loads)
        self._e, self._tiled, self._packed = e, tiled, packed
        self._facts, self._plan = e.facts, plan

    def gangs(self) -> str:
        with self._code():
            return self.panels.gangs()

    def copy(self, rows: str, gangs: str, last: str) -> None:
        with self._code():
            self.panels.copy(rows, gangs, last)

    def _code(self) -> AbstractContextManager[None]:
        self._e.bind_all(self._packed)
        return self._e.other_code(self._tiled.strides, self._facts, self._plan)


def _rows(
    func: Func, rows: int, in_panels: Mapping[Eqn, IndependentLoop], last: Var | None = None
) -> _Rows:
    together = tile_rows(func, rows, last)
    strides = lane_strides(together)
    copies = dict(zip(_loops(func), _loops(together), strict=True))
    blocked = blocked_loops(together, strides)
    transposed = {copies[eqn]: blocked.pop(copies[eqn]).streams for eqn in in_panels}
    return _Rows(together, strides, blocked, transposed)


def _like(
    panels: Mapping[Eqn, Sequence[Panel]], one: _Rows, other: _Rows
) -> dict[Eqn, list[Panel]]:
    """The transposed ``panels`` of ``one`` for ``other``."""
    return {
        copy: [replace(p, loads=s.eqns) for p, s in zip(panels[loop], streams, strict=True)]
        for loop, (copy, streams) in zip(one.transposed, other.transposed.items(), strict=True)
    }


def _loops(func: Func) -> list[Eqn]:
    return [eqn for eqn in func.body.eqns if eqn.op.kind is OpKind.FOR]
