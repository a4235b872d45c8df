"""The function that runs a kernel with gathered sums, a piece of the grid at a time.

A piece is as many whole rows as there is room for the values that its threads keep, in whole gangs
if there is room for one, or a part of one row. For each the function calls the kernels of
``analysis/gathered_sums.py``, with an argument block that also holds the kept arrays and the bounds
of the piece.

Where the calls of a launch divide the elements of an addition (``analysis/own_elements.py``), its
kernel runs for the elements of the call, over all rows of the grid, and for no piece.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.gathered_sums import GatheredSum, GatheredSums
from kernelcore.codegen.analysis.own_elements import own_elements
from kernelcore.codegen.llvm import memory, stacks
from kernelcore.codegen.llvm.blocks import repeat
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.llvm.trips import launch_trips
from kernelcore.codegen.simd.gang_loop import minimum
from kernelcore.codegen.simd.gathering import FEW_POINTS, LEAST_TRIPS_OF_FEW, Gathering
from kernelcore.codegen.simd.grid_loop import unravel
from kernelcore.ir.core import Var
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.accumulation_plan import shared_arrays

# Room for the kept values of a piece.
KEPT_BYTES = 1 << 19
# A column of kept values whose size is a multiple of the first gets the second more: one value of
# each column would else fall into few sets of the first cache (docs/decisions/246).
_ALIASING_BYTES, _PADDING_BYTES = 256, 64
# Gangs that have rows as lanes, ascending.
_LANES_OF_ROWS = (16, 32)
# Where calls divide elements, each total covers this many rows of the grid: their operands fit in
# the second cache.
OWN_ROWS = 256
# The points of a piece without kept values.
_NO_LIMIT = 1 << 40


def pays(e: Emitter, gathering: Gathering, dims: Sequence[str]) -> str:
    """Whether every loop of a launch over ``dims``, i64, has iterations enough to gather, as i1.

    The arguments of the kernel are bound.
    """
    found, result = gathering.sums, "true"
    is_short = e.op(f"icmp sle i64 {dims[-1]}, {FEW_POINTS}")
    least = e.op(f"select i1 {is_short}, i64 {LEAST_TRIPS_OF_FEW}, i64 {gathering.least_trips}")
    for bounds in found.bounds:
        is_long = e.op(f"icmp uge i64 {launch_trips(e, found.func, bounds)}, {least}")
        result = e.op(f"and i1 {result}, {is_long}")
    return result


def emit_pieces(
    e: Emitter, gathering: Gathering, dims: Sequence[str], symbols: Sequence[str]
) -> None:
    """Run the points from ``%begin`` to ``%end``, at least one.

    Args:
        e: Emitter of single threads, with the arguments of the kernel bound.
        gathering: How the kernel gathers its sums.
        dims: Extents of the grid, as i64.
        symbols: The functions of the kernels of a piece, ``gathering.sums.funcs``.
    """
    found = gathering.sums
    block, room = _block(e, found)
    sums = _sums(e, gathering, dims, symbols[-len(found.sums) :])
    for one in sums:
        if one.divided is not None:
            _emit_own_elements(e, found, block, dims, one)
    before, piece, done = e.block, e.label("piece"), e.label("pieces_done")
    e.jump_into(piece)
    position = e.phi("i64", ("%begin", before))
    index = unravel(e, position, dims)
    rows, columns = _size(e, (position, index), dims, room)
    _describe(e, found, block, index, (rows, columns))
    following = e.op(f"add nuw nsw i64 {position}, {e.op(f'mul nuw nsw i64 {rows}, {columns}')}")
    if found.first is not None:
        _call(e, symbols[0], (block, "%grid"), (position, following))
    for one in sums:
        start, end, axis = "0", one.trips, one.made.axis
        if axis is not None:
            size = rows if axis == len(dims) - 2 else columns
            if one.made.is_last:
                e.effect(f"store i64 {size}, ptr {memory.address_at(e, one.grid, 8)}")
                end = e.op(f"mul nuw nsw i64 {end}, {size}")
            else:
                behind = e.op(f"add nuw nsw i64 {index[axis]}, {size}")
                start = e.op(f"mul nuw nsw i64 {index[axis]}, {one.trips}")
                end = e.op(f"mul nuw nsw i64 {behind}, {one.trips}")
        if one.divided is not None:
            end = e.op(f"select i1 {one.divided}, i64 {start}, i64 {end}")
        _call(e, one.symbol, (block, one.grid), (start, end))
    e.add_edge(position, following, e.block)
    e.branch(e.op(f"icmp slt i64 {following}, %end"), piece, done)
    e.start_block(done)


@dataclass(frozen=True, slots=True)
class _Sum:
    """Gathered additions as the function that runs pieces calls them.

    Attributes:
        made: The additions.
        symbol: The function of their kernel.
        grid: Its launch grid.
        trips: The iterations of their loop, as i64.
        divided: Whether the calls of this launch divide their elements, as i1; None if never.
    """

    made: GatheredSum
    symbol: str
    grid: str
    trips: str
    divided: str | None


def _sums(
    e: Emitter, gathering: Gathering, dims: Sequence[str], symbols: Sequence[str]
) -> list[_Sum]:
    found, arrays = gathering.sums, shared_arrays(gathering.sums.func)
    trips = {b: launch_trips(e, found.func, b) for b in found.bounds}
    bits = e.op(f"load i64, ptr {memory.address_at(e, '%grid', abi.GRID_OWN_OFFSET)}")
    result: list[_Sum] = []
    ways = own_elements(found, gathering.least_trips)
    for one, symbol, how in zip(found.sums, symbols, ways, strict=True):
        divided = None
        if how is not None:
            bit = e.op(f"lshr i64 {bits}, {arrays.index(one.arrays[0])}")
            divided = e.op(f"trunc i64 {bit} to i1")
        count = trips[one.bounds]
        result.append(_Sum(one, symbol, _grid(e, one, dims, count), count, divided))
    return result


def _emit_own_elements(
    e: Emitter, found: GatheredSums, block: str, dims: Sequence[str], one: _Sum
) -> None:
    """Where elements are divided, add to those of this call what all points of the launch add.

    The call has the rows of elements, those of the grid of ``one``, that its points are of the
    launch. It goes through the rows of the launch, a block after the other.
    """
    is_last = one.made.is_last
    count, length = (one.trips, dims[1]) if is_last else (dims[1], one.trips)
    points = e.op(f"mul nuw nsw i64 {dims[0]}, {dims[1]}")
    # The product fits: launches of many points divide no elements.
    shares = (e.op(f"mul i64 {count}, {at}") for at in ("%begin", "%end"))
    first, last = (
        e.op(f"mul i64 {e.op(f'udiv i64 {share}, {points}')}, {length}") for share in shares
    )
    blocks = e.op(f"udiv i64 {e.op(f'add nuw nsw i64 {dims[0]}, {OWN_ROWS - 1}')}, {OWN_ROWS}")
    blocks = e.op(f"select i1 {one.divided}, i64 {blocks}, i64 0")

    def rows(number: str) -> None:
        row = e.op(f"mul nuw nsw i64 {number}, {OWN_ROWS}")
        size = minimum(e, e.op(f"sub nuw nsw i64 {dims[0]}, {row}"), str(OWN_ROWS))
        _describe(e, found, block, (row, "0"), (size, dims[1]))
        if is_last:
            e.effect(f"store i64 {dims[1]}, ptr {memory.address_at(e, one.grid, 8)}")
        _call(e, one.symbol, (block, one.grid), (first, last))

    repeat(e, blocks, rows)


def _block(e: Emitter, found: GatheredSums) -> tuple[str, int]:
    """The argument block of the kernels of a piece, and how many points it has room for.

    The kept values have memory of the heap: some threads have small stacks.
    """
    _, size_bytes = abi.layout(found.params)
    block = e.slot(f"[{size_bytes} x i8], align {abi.BLOCK_ALIGN_BYTES}")
    _copy(e, "%args", block, abi.layout(found.func.params)[1])
    kept = _kept(found)
    room = max(KEPT_BYTES // sum(size for _, size, _ in kept), 1) if kept else _NO_LIMIT
    points = minimum(e, e.op("sub i64 %end, %begin"), str(room))
    for field, size, in_columns in kept:
        size_bytes = e.op(f"mul nuw nsw i64 {points}, {size}")
        if in_columns:  # At most one gap for every multiple.
            gaps = e.op(f"udiv i64 {size_bytes}, {_ALIASING_BYTES}")
            gaps = e.op(f"mul nuw nsw i64 {gaps}, {_PADDING_BYTES}")
            size_bytes = e.op(f"add nuw nsw i64 {size_bytes}, {gaps}")
        values, has_memory = stacks.private_memory(e, size_bytes), e.label("has_memory")
        is_made = e.op(f"icmp ne ptr {values}, null")
        e.branch(is_made, has_memory, stacks.OUT_OF_MEMORY_BLOCK)
        e.start_block(has_memory)
        e.effect(f"store ptr {values}, ptr {memory.address_at(e, block, field.offset)}")
    return block, room


def _kept(found: GatheredSums) -> list[tuple[abi.Field, int, bool]]:
    """Of the kept arrays: field, size of an element in bytes, whether columns are adjacent."""
    fields, _ = abi.layout(found.params)
    start = len(found.func.params)
    mine = fields[start : start + len(found.kept)]
    kept = zip(mine, found.kept.items(), strict=True)
    return [(f, _element_bytes(array), k.in_columns) for f, (k, array) in kept]


def _element_bytes(array: Var) -> int:
    assert isinstance(array.type, ArrayType)
    return array.type.dtype.size_bytes


def _grid(e: Emitter, one: GatheredSum, dims: Sequence[str], trips: str) -> str:
    """The launch grid of ``one``, whose loop has ``trips`` iterations; a piece adds its size."""
    grid = e.slot(f"[{abi.GRID_BYTES} x i8], align 8")
    _copy(e, "%grid", grid, abi.GRID_BYTES)
    extents = [trips]
    if one.axis is not None and not one.is_last:
        extents = [dims[one.axis], trips]
    for axis, extent in enumerate(extents):
        e.effect(f"store i64 {extent}, ptr {memory.address_at(e, grid, 8 * axis)}")
    return grid


def _size(
    e: Emitter, start: tuple[str, Sequence[str]], dims: Sequence[str], room: int
) -> tuple[str, str]:
    """Rows and columns of the piece from ``start`` on, a point with its launch index."""
    position, index = start
    left = e.op(f"sub i64 %end, {position}")
    are_whole = e.op(f"icmp eq i64 {index[-1]}, 0")
    for most in (left, str(room)):
        are_whole = e.op(f"and i1 {are_whole}, {e.op(f'icmp sle i64 {dims[-1]}, {most}')}")
    columns = minimum(e, e.op(f"sub i64 {dims[-1]}, {index[-1]}"), left)
    columns = minimum(e, columns, str(room))
    rows = _whole_gangs(e, e.op(f"udiv i64 {room}, {dims[-1]}"))
    rows = minimum(e, rows, e.op(f"udiv i64 {left}, {dims[-1]}"))
    rows = minimum(e, rows, e.op(f"sub i64 {dims[-2]}, {index[-2]}"))
    return e.op(f"select i1 {are_whole}, i64 {rows}, i64 1"), columns


def _whole_gangs(e: Emitter, rows: str) -> str:
    """``rows`` rounded down to a multiple of 32, or to 16; fewer than 16 stay."""
    found = rows
    for lanes in _LANES_OF_ROWS:
        are_enough = e.op(f"icmp uge i64 {rows}, {lanes}")
        whole = e.op(f"and i64 {rows}, {-lanes}")
        found = e.op(f"select i1 {are_enough}, i64 {whole}, i64 {found}")
    return found


def _describe(
    e: Emitter, found: GatheredSums, block: str, index: Sequence[str], size: tuple[str, str]
) -> None:
    """Write the bounds of a piece, and the form of the kept arrays, into the argument ``block``."""
    fields, _ = abi.layout(found.params)
    for field, element, in_columns in _kept(found):
        shape = size[::-1] if in_columns else size
        row = e.op(f"mul nuw nsw i64 {shape[1]}, {element}")
        if in_columns:
            padded = e.op(f"add nuw nsw i64 {row}, {_PADDING_BYTES}")
            aliases = e.op(f"icmp eq i64 {e.op(f'urem i64 {row}, {_ALIASING_BYTES}')}, 0")
            row = e.op(f"select i1 {aliases}, i64 {padded}, i64 {row}")
        places = [field.shape_offset(a) for a in (0, 1)] + [field.stride_offset(a) for a in (0, 1)]
        for place, word in zip(places, (*shape, row, str(element)), strict=True):
            e.effect(f"store i64 {word}, ptr {memory.address_at(e, block, place)}")
    ends = [e.op(f"add nuw nsw i64 {at}, {n}") for at, n in zip(index[-2:], size, strict=True)]
    words = (*index[:-2], index[-2], ends[0], index[-1], ends[1])
    for field, word in zip(fields[-len(words) :], words, strict=True):
        short = e.op(f"trunc nuw nsw i64 {word} to i32")
        e.effect(f"store i32 {short}, ptr {memory.address_at(e, block, field.offset)}")


def _copy(e: Emitter, source: str, target: str, size_bytes: int) -> None:
    e.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    passed = f"ptr align 8 {target}, ptr align 8 {source}, i64 {size_bytes}, i1 false"
    e.effect(f"call void @llvm.memcpy.p0.p0.i64({passed})")


def _call(e: Emitter, symbol: str, given: tuple[str, str], bounds: tuple[str, str]) -> None:
    passed = f"ptr {given[0]}, ptr {given[1]}, i64 {bounds[0]}, i64 {bounds[1]}"
    e.effect(f"call void {symbol}({passed})")
