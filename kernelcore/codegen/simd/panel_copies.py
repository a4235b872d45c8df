"""Copies of panels (``analysis/panels.py``) in the frame, for the tiles below each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.composed import trip_count
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.panels import LEAST_ROWS_COPIED, Panel
from kernelcore.codegen.analysis.row_blocks import RowStream
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.blocks import repeat, resized
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.llvm.trips import launch_trips
from kernelcore.codegen.simd.gang_loop import minimum
from kernelcore.codegen.simd.row_blocks import read_block
from kernelcore.codegen.simd.row_transfer import BLOCK
from kernelcore.ir.core import Const, Eqn, Func, Region
from kernelcore.ir.walk import array_type, element_indices
from kernelcore.language.types import Scalar
from kernelcore.passes.access.accumulation_plan import defining_eqns

# Room in the frame for copies, which the second cache holds (docs/decisions/281).
PANEL_BYTES = 1 << 18
# Gangs whose panels are copied together (docs/decisions/281).
MOST_GANGS = 8


class StripPanels:
    """The panels that tiles below each other share, for the gangs of a strip.

    Rows of an array lie on pages of their own, and share few sets of a cache where they are a power
    of two apart. A strip is as many adjacent gangs as there is room for, up to ``MOST_GANGS``: it
    reads several cache lines of each row at once.
    """

    def __init__(self, e: Emitter, func: Func, loads: Mapping[Eqn, Sequence[Eqn]]) -> None:
        self._e, self._func, self._loads = e, func, loads
        self._room = PANEL_BYTES // sum(map(len, loads.values()))
        # Known from the start of a row on: per loop the number of iterations, as i64.
        self._counts: dict[Eqn, str] = {}
        self._fits = "true"
        # Known from the start of a strip on: its first column, and what each load finds there.
        self._column = ""
        self._found: dict[Eqn, _Source] = {}

    def gangs(self) -> str:
        """Emit how many gangs are a strip, an i64, at the start of a row."""
        e, most = self._e, str(MOST_GANGS)
        for loop, loads in self._loads.items():
            self._counts[loop] = count = launch_trips(e, self._func, loop.inputs[:3])
            row_bytes = max(e.gang * array_type(load).dtype.size_bytes for load in loads)
            iterations = e.op(f"call i64 @llvm.umax.i64(i64 {count}, i64 1)")
            most = minimum(e, most, e.op(f"udiv i64 {self._room // row_bytes}, {iterations}"))
        e.declare("declare i64 @llvm.umax.i64(i64, i64)")
        self._fits = e.op(f"icmp ne i64 {most}, 0")
        return e.op(f"call i64 @llvm.umax.i64(i64 {most}, i64 1)")

    def copy(self, rows: str, gangs: str, last: str) -> None:
        """Emit the copies for ``gangs`` gangs from ``e.point`` on, if these pay for ``rows`` rows.

        The last gang of the row begins at column ``last``; what rows shorter than a gang read has
        no copy. All are i64.
        """
        e = self._e
        self._column = e.wide_indices[e.point[-1]]
        pays = e.op(f"icmp uge i64 {rows}, {LEAST_ROWS_COPIED}")
        is_whole = e.op(f"icmp sge i64 {last}, 0")
        copies = e.op(f"and i1 {e.op(f'and i1 {pays}, {is_whole}')}, {self._fits}")
        for loop, loads in self._loads.items():
            for load in loads:
                source = self._found[load] = self._source(loop, load, copies)
                self._copy(source, gangs, e.op(f"sub i64 {last}, {self._column}"))

    def at_gang(self) -> dict[Eqn, list[Panel]]:
        """Emit where the loads of each loop find their elements, for the gang at ``e.point``."""
        e = self._e
        behind = e.op(f"sub i64 {e.wide_indices[e.point[-1]]}, {self._column}")
        # The last gang of a row may have been moved back, also to before the strip.
        place = e.op(
            f"ashr i64 {e.op(f'add i64 {behind}, {e.gang - 1}')}, {e.gang.bit_length() - 1}"
        )
        return {
            loop: [self._panel(self._found[load], behind, place) for load in loads]
            for loop, loads in self._loads.items()
        }

    def _source(self, loop: Eqn, load: Eqn, copies: str) -> _Source:
        e, index = self._e, loop.regions[0].params[0]
        others = tuple(i for i in element_indices(load) if i is not index)
        e.region(Region((), defining_eqns(self._func, (*loop.inputs[:3], *others))))
        with e.at(1):
            e.bind(index, e.value(loop.inputs[0]))
            first = memory.element(e, load)[1]
        apart = e.array(load.inputs[0]).strides[element_indices(load).index(index)]
        step = loop.inputs[2]
        assert isinstance(step, Const)
        slot = e.slot(f"[{self._room} x i8], align {memory.CACHE_LINE_BYTES}")
        by = e.op(f"mul i64 {apart}, {int(step.value)}")
        return _Source(load, first, by, copies, self._counts[loop], slot)

    def _copy(self, source: _Source, gangs: str, last: str) -> None:
        """Emit the copies of ``source``; ``last`` is how far the last gang of the row may begin."""
        e, row_bytes = self._e, source.row_bytes(self._e)
        end = e.op(f"select i1 {source.copies}, i64 {source.count}, i64 0")
        size_bytes = source.dtype.size_bytes
        apart = e.op(f"mul i64 {source.count}, {row_bytes}")

        def row(at: str) -> None:
            begin = e.op(
                f"getelementptr i8, ptr {source.first}, i64 {e.op(f'mul i64 {at}, {source.step}')}"
            )
            target = e.op(
                f"getelementptr i8, ptr {source.slot}, i64 {e.op(f'mul i64 {at}, {row_bytes}')}"
            )

            def gang(place: str) -> None:
                column = minimum(e, e.op(f"mul i64 {place}, {e.gang}"), last)
                offset = e.op(f"mul i64 {column}, {size_bytes}")
                moved = e.op(f"mul i64 {place}, {apart}")
                with e.at(e.gang):
                    found = e.op(f"getelementptr i8, ptr {begin}, i64 {offset}")
                    value = memory.load(e, source.dtype, found)
                    goal = e.op(f"getelementptr i8, ptr {target}, i64 {moved}")
                    memory.store(e, source.dtype, value, goal)

            repeat(e, gangs, gang)

        repeat(e, end, row)

    def _panel(self, source: _Source, behind: str, place: str) -> Panel:
        e, row_bytes = self._e, source.row_bytes(self._e)
        offset = e.op(f"mul i64 {behind}, {source.dtype.size_bytes}")
        in_place = e.op(f"getelementptr i8, ptr {source.first}, i64 {offset}")
        moved = e.op(f"mul i64 {place}, {e.op(f'mul i64 {source.count}, {row_bytes}')}")
        copy = e.op(f"getelementptr i8, ptr {source.slot}, i64 {moved}")
        return Panel(
            (source.load,),
            e.op(f"select i1 {source.copies}, ptr {copy}, ptr {in_place}"),
            e.op(f"select i1 {source.copies}, i64 {row_bytes}, i64 {source.step}"),
            may_be_in_place=True,
        )


@dataclass(frozen=True, slots=True)
class _Source:
    """What a load of a strip finds in an array, and where copies of it are.

    Attributes:
        load: The load.
        first: The address of what it loads first, at the first column of the strip.
        step: The distance from iteration to iteration in bytes, as i64.
        copies: Whether there are copies, as i1.
        count: The number of iterations, as i64.
        slot: The part of the frame for the copies, panel after panel.
    """

    load: Eqn
    first: str
    step: str
    copies: str
    count: str
    slot: str

    @property
    def dtype(self) -> Scalar:
        return array_type(self.load).dtype

    def row_bytes(self, e: Emitter) -> int:
        """What a gang loads in an iteration."""
        return e.gang * self.dtype.size_bytes


def transposed_panels(
    e: Emitter, func: Func, loops: Mapping[Eqn, Sequence[RowStream]], most: int
) -> dict[Eqn, list[Panel]]:
    """Copy what ``loops`` read along rows at ``e.point``, in at most ``most`` iterations.

    The arguments of the kernel are bound. The result names the panels of each loop.
    """
    return {loop: _transposed(e, func, loop, streams, most) for loop, streams in loops.items()}


def _transposed(
    e: Emitter, func: Func, loop: Eqn, streams: Sequence[RowStream], most: int
) -> list[Panel]:
    index = loop.regions[0].params[0]
    used = [i for s in streams for i in element_indices(s.eqns[0]) if i is not index]
    e.region(Region((), defining_eqns(func, (*loop.inputs[:3], *used))))
    integer = scalar_type(index)
    ty = LLVM_TYPES[integer.name]
    with e.at(1):
        first, limit, by = (e.value(a) for a in loop.inputs[:3])
        count = trip_count(e, integer, first, limit, by)
    panels: list[Panel] = []
    for stream in streams:
        row_bytes = e.gang * array_type(stream.eqns[0]).dtype.size_bytes
        # A block is stored whole, also the last one.
        room = -(-most // BLOCK) * BLOCK * row_bytes
        slot = e.slot(f"[{room} x i8], align {memory.CACHE_LINE_BYTES}")
        panels.append(Panel(stream.eqns, slot, str(row_bytes)))
    before, head, block, done = e.block, e.label("panel"), e.label("transpose"), e.label("copied")
    e.jump_into(head)
    at, position = e.phi(ty, ("0", before)), e.phi(ty, (first, before))
    e.branch(e.op(f"icmp ult {ty} {at}, {count}"), block, done)
    e.start_block(block)
    e.bind(index, position)
    left = e.op(f"sub nuw {ty} {count}, {at}")
    is_last = e.op(f"icmp ult {ty} {left}, {BLOCK}")
    size = e.op(f"select i1 {is_last}, {ty} {left}, {ty} {BLOCK}")
    made = resized(e, at, ty, "i64")
    for stream, panel in zip(streams, panels, strict=True):
        target = addresses(e, [panel], made)[stream.eqns[0]]
        read_block(e, stream, target, resized(e, size, ty, "i32"), made)
    e.add_edge(at, e.op(f"add nuw {ty} {at}, {size}"), e.block)
    moved = e.op(f"mul {ty} {size}, {by}")
    e.add_edge(position, e.op(f"add {ty} {position}, {moved}"), e.block)
    e.jump(head)
    e.start_block(done)
    return panels


def addresses(e: Emitter, panels: Sequence[Panel], iteration: str) -> dict[Eqn, str]:
    """Where the loads of ``panels`` find their elements in ``iteration``, an i64."""
    return {
        load: e.op(f"getelementptr i8, ptr {p.first}, i64 {e.op(f'mul i64 {iteration}, {p.step}')}")
        for p in panels
        for load in p.loads
    }
