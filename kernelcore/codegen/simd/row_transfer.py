"""Functions that move the elements of a block between rows and the frame (``row_blocks.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, Lanes
from kernelcore.codegen.llvm.module_function import ModuleFunction, finished
from kernelcore.codegen.reduction.element_add import summed
from kernelcore.codegen.simd import vector_access
from kernelcore.codegen.simd.transpose import transposed
from kernelcore.language.types import Scalar

# Iterations of a block: as many elements as a cache line has of four bytes.
BLOCK = 16
POINTER_BYTES = 8
# Prefetches are one gang ahead where its rows lie within this size, else this far along the rows.
MAX_REACH_BYTES, AHEAD_BYTES = 1 << 16, 1024


@dataclass(frozen=True, slots=True)
class Transfer:
    """A function that moves the elements of a block between rows and the frame, or adds to rows.

    Attributes:
        dtype: Their type.
        gang: How many rows there are.
        is_down: Whether iterations go to lower addresses.
        writes: Whether it moves them to the rows.
        adds: Whether it adds them to what is there, lane after lane.
        is_regular: Whether rows have one distance.
        has_mask: Whether some rows may be inactive.
        prefetches: Whether it prefetches the rows of the next gang.
        width: How many elements of a row are transposed at once.
    """

    dtype: Scalar
    gang: int
    is_down: bool
    writes: bool
    adds: bool
    is_regular: bool
    has_mask: bool
    prefetches: bool
    width: int

    @property
    def symbol(self) -> str:
        verb = "add_rows" if self.adds else "write" if self.writes else "read"
        words = ["kc", verb, self.dtype.name, str(self.gang), f"by{self.width}"]
        marks = ((self.is_down, "down"), (self.is_regular, "regular"), (self.has_mask, "masked"))
        marks += ((self.prefetches, "prefetching"),)
        return ".".join([*words, *(word for is_so, word in marks if is_so)])

    @property
    def params(self) -> str:
        step = ", i64 %step" if self.is_regular else ""
        step += ", i64 %done" if self.prefetches else ""
        active = f", i{self.gang} %active" if self.has_mask else ""
        return f"ptr %rows{step}, i32 %size, ptr %slot{active}"


@cache
def transfer_function(what: Transfer, attributes: tuple[tuple[str, str], ...]) -> ModuleFunction:
    e = Emitter(Lanes(what.gang))
    _emit_transfer(e, what)
    return finished(e, what.symbol, what.params, dict(attributes))


def _emit_transfer(e: Emitter, what: Transfer) -> None:
    """The code of the function ``what``.

    Of whole blocks whose rows are all active, nothing is masked: processors without registers for
    masks take 12 cycles for a masked store of 32 bytes (docs/decisions/130).
    """
    rows = _addresses(e, what)
    if what.prefetches:
        columns = range(0, BLOCK, what.width)
        places = [_in_row(e, what, rows[k], at) for at in columns for k in range(e.gang)]
        _prefetch(e, what, places)
    whole, part, done = e.label("whole"), e.label("part"), e.label("moved")
    is_whole = e.op(f"icmp eq i32 %size, {BLOCK}")
    if what.has_mask:
        is_whole = e.op(f"and i1 {is_whole}, {e.op(f'icmp eq i{e.gang} %active, -1')}")
    e.branch(is_whole, whole, part)
    e.start_block(whole)
    _move_rows(e, what, rows, lambda _: [None] * e.gang)
    e.jump(done)
    e.start_block(part)
    active = _active_rows(e) if what.has_mask else []
    places = _places(e, rows, active) if active else rows
    _move_rows(e, what, places, lambda column: _masks(e, what, column, active))
    e.jump(done)
    e.start_block(done)


def _move_rows(
    e: Emitter,
    what: Transfer,
    rows: Sequence[str],
    masks_at: Callable[[int], Sequence[str | None]],
) -> None:
    """Move the elements of a block; ``masks_at`` gives the masks of its rows from a column on."""
    dtype, width, size_bytes = what.dtype, what.width, what.dtype.size_bytes
    element = memory.stored_type(dtype)

    def in_slot(place: int, lane: int) -> str:
        """The operand that names the frame's elements from ``lane`` on, ``place`` along rows."""
        offset = (_iteration(what, place) * e.gang + lane) * size_bytes
        return f"ptr {memory.address_at(e, '%slot', offset)}, align {size_bytes}"

    for column in range(0, BLOCK, width):
        masks = masks_at(column)
        for lane in range(0, e.gang, width):
            lanes, columns = range(lane, lane + width), range(column, column + width)
            places = {k: _in_row(e, what, rows[k], column) for k in lanes}
            if what.writes:
                found = [e.op(f"load <{width} x {element}>, {in_slot(k, lane)}") for k in columns]
                found = transposed(e, element, size_bytes, found)
                for k, values in zip(lanes, found, strict=True):
                    if what.adds:
                        old = vector_access.load_adjacent(e, dtype, width, places[k], masks[k])
                        with e.at(width):
                            values = summed(e, dtype, old, values)
                    vector_access.store_adjacent(e, dtype, width, values, places[k], masks[k])
                continue
            found = [
                vector_access.load_adjacent(e, dtype, width, places[k], masks[k]) for k in lanes
            ]
            found = transposed(e, element, size_bytes, found)
            for k, values in zip(columns, found, strict=True):
                e.effect(f"store <{width} x {element}> {values}, {in_slot(k, lane)}")


def _masks(e: Emitter, what: Transfer, column: int, active: Sequence[str]) -> list[str]:
    """Per row, which of ``width`` elements from ``column`` on belong to the iterations.

    ``active`` says of each row whether it is, as i1; it is empty if all are.
    """
    width = what.width
    numbers = ", ".join(f"i32 {_iteration(what, k)}" for k in range(column, column + width))
    wide = f"<{width} x i32>"
    first = e.op(f"insertelement {wide} poison, i32 %size, i64 0")
    sizes = e.op(f"shufflevector {wide} {first}, {wide} poison, {wide} zeroinitializer")
    mask = e.op(f"icmp ult {wide} <{numbers}>, {sizes}")
    if not active:
        return [mask] * e.gang
    kinds = f"<{width} x i1> {mask}, <{width} x i1> zeroinitializer"
    return [e.op(f"select i1 {is_active}, {kinds}") for is_active in active]


def _active_rows(e: Emitter) -> list[str]:
    """Whether each row is active, as i1; one of them is."""
    active = e.op(f"bitcast i{e.gang} %active to <{e.gang} x i1>")
    return [e.op(f"extractelement <{e.gang} x i1> {active}, i64 {k}") for k in range(e.gang)]


def _places(e: Emitter, rows: Sequence[str], active: Sequence[str]) -> list[str]:
    """The addresses of ``rows``, of inactive ones that of an active one.

    An inactive row may have no memory. A masked load of nothing takes 0.5 us there
    (docs/decisions/286).
    """
    (*others, one), (*are_active, _) = rows, active
    for row, is_active in zip(others, are_active, strict=True):
        one = e.op(f"select i1 {is_active}, ptr {row}, ptr {one}")
    return [
        e.op(f"select i1 {is_active}, ptr {row}, ptr {one}")
        for row, is_active in zip(rows, active, strict=True)
    ]


def _iteration(what: Transfer, place: int) -> int:
    """The iteration of the block that has the element ``place`` along the rows."""
    return BLOCK - 1 - place if what.is_down else place


def _in_row(e: Emitter, what: Transfer, row: str, column: int) -> str:
    """The address of the element at ``column`` of a block.

    A block of a loop that counts down begins with the element of its last iteration.
    """
    behind = column - (BLOCK - 1) if what.is_down else column
    return memory.address_at(e, row, behind * what.dtype.size_bytes)


def _prefetch(e: Emitter, what: Transfer, places: Sequence[str]) -> None:
    """Prefetch a part of what the next gang has, line after line, or further on behind ``places``.

    The rows of a gang mostly are one piece of memory: to go through that of the next gang in the
    order of addresses, as large a part per block as the block takes, leaves fewer streams to the
    hardware than to go along the rows (docs/decisions/211).
    """
    e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")

    def prefetch(place: str) -> None:
        e.effect(f"call void @llvm.prefetch.p0(ptr {place}, i32 {int(what.writes)}, i32 2, i32 1)")

    size_bytes = what.dtype.size_bytes
    reach = e.op(f"mul i64 %step, {e.gang}")
    near, far, done = e.label("near"), e.label("far"), e.label("prefetched")
    e.branch(e.op(f"icmp ule i64 {reach}, {MAX_REACH_BYTES}"), near, far)
    e.start_block(near)
    part = BLOCK * e.gang * size_bytes
    if what.is_down:
        # From the end of the last row on.
        behind = e.op(f"sub i64 {e.op(f'add i64 {reach}, {reach}')}, %step")
        behind = e.op(f"sub i64 {behind}, {part - size_bytes}")
        moved = e.op(f"mul i64 %done, {size_bytes - e.gang * size_bytes}")
    else:
        behind, moved = reach, e.op(f"mul i64 %done, {e.gang * size_bytes - size_bytes}")
    start = e.op(f"getelementptr i8, ptr %rows, i64 {e.op(f'add i64 {behind}, {moved}')}")
    for line in range(0, part, memory.CACHE_LINE_BYTES):
        prefetch(memory.address_at(e, start, line))
    e.jump(done)
    e.start_block(far)
    for place in places:
        prefetch(memory.address_at(e, place, AHEAD_BYTES))
    e.jump(done)
    e.start_block(done)


def _addresses(e: Emitter, what: Transfer) -> list[str]:
    """The address of the first element of each row, in the function ``what``."""
    if not what.is_regular:
        slots = [memory.address_at(e, "%rows", POINTER_BYTES * k) for k in range(e.gang)]
        return [e.op(f"load ptr, ptr {slot}") for slot in slots]
    found = ["%rows"]
    for _ in range(1, e.gang):
        found.append(e.op(f"getelementptr i8, ptr {found[-1]}, i64 %step"))
    return found
