"""The loop over strips of a row: gangs that run a kernel part by part, together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.blocks import repeat, resized
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter, scalar_type
from kernelcore.codegen.llvm.instruction_cost import count_of
from kernelcore.codegen.llvm.trips import launch_trips
from kernelcore.codegen.simd.column_walks import LEAST_TRIPS, Block, ColumnWalks, dtype_of
from kernelcore.codegen.simd.gang_loop import Body, emit_gangs, minimum
from kernelcore.ir.core import Func
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import float32

# Room for what a strip keeps from part to part, so that it stays in the first cache
# (docs/decisions/309).
STRIP_BYTES = 1 << 14
# The iterations of a block.
ROWS_OF_BLOCK = 8
# Kernels up to this size have code without strips, too, for short loops. LLVM takes too long for
# both of larger ones.
MOST_INSTRUCTIONS_OF_BOTH = 24


@dataclass(frozen=True, slots=True)
class Strips:
    """Code of gangs that walk down columns together.

    Attributes:
        walks: The parts of the kernel.
        bodies: Emit a gang of each part, for packed arrays.
        loops: The first index of each loop, and its iterations as i64.
        width: How many threads are a strip, in whole gangs.
        rows: The address of each kept array.
        pays: Whether they are quicker than gangs alone in this launch, as i1; None where gangs
            alone have no code.
    """

    walks: ColumnWalks
    bodies: Sequence[Body]
    loops: Sequence[tuple[str, str]]
    width: int
    rows: Sequence[str]
    pays: str | None


def strips_of(e: Emitter, func: Func, walks: ColumnWalks, bodies: Sequence[Body]) -> Strips:
    """The code of ``func``, at the start of the kernel, where its arguments are bound.

    Args:
        e: Emitter.
        func: The kernel.
        walks: Its parts.
        bodies: Emit a gang of each part.
    """
    loops: list[tuple[str, str]] = []
    instructions = sum(map(count_of, walk_eqns(func.body)))
    pays = "true" if instructions <= MOST_INSTRUCTIONS_OF_BOTH else None
    # Where nothing is kept, a strip is as wide as for one float32.
    width = STRIP_BYTES // (walks.bytes_of_thread or float32.size_bytes) // e.gang * e.gang
    for bounds in walks.bounds:
        count = launch_trips(e, func, bounds)
        loops.append((e.value_at(bounds[0], 1), count))
        if pays is not None:
            pays = e.op(f"and i1 {pays}, {e.op(f'icmp uge i64 {count}, {LEAST_TRIPS}')}")
    rows = [
        e.slot(f"[{width * dtype_of(v).size_bytes} x i8], align {memory.CACHE_LINE_BYTES}")
        for v in walks.kept
    ]
    return Strips(walks, bodies, loops, width, rows, pays)


def emit_strips(e: Emitter, outer: Sequence[str], bounds: tuple[str, str], strips: Strips) -> None:
    """The whole gangs of a row from the first of ``bounds`` to before the second, at least one."""
    first, last = bounds

    def strip() -> None:
        begin = e.wide_indices[e.point[-1]]
        end = minimum(e, e.op(f"add nuw nsw i64 {begin}, {strips.width}"), last)
        _bind_kept(e, strips, begin)
        loops = iter(strips.loops)
        for part, body in zip(strips.walks.parts, strips.bodies, strict=True):
            gangs = partial(emit_gangs, e, outer, begin, end, body)
            if part.block is None:
                gangs()
            else:
                _emit_blocks(e, part.block, next(loops), gangs)

    emit_gangs(e, outer, first, last, strip, str(strips.width))


def _emit_blocks(e: Emitter, block: Block, loop: tuple[str, str], gangs: Body) -> None:
    """``gangs`` for every block of ``loop``, its first index and its iterations."""
    first, trips = loop
    ty = LLVM_TYPES[scalar_type(block.first).name]
    more = e.op(f"add nuw nsw i64 {trips}, {ROWS_OF_BLOCK - 1}")

    def rows(number: str) -> None:
        passed = e.op(f"mul nuw nsw i64 {number}, {ROWS_OF_BLOCK}")
        count = minimum(e, e.op(f"sub nuw nsw i64 {trips}, {passed}"), str(ROWS_OF_BLOCK))
        start = e.op(f"add {ty} {first}, {resized(e, passed, 'i64', ty)}")
        e.bind(block.first, start)
        e.bind(block.end, e.op(f"add {ty} {start}, {resized(e, count, 'i64', ty)}"))
        gangs()

    repeat(e, e.op(f"udiv i64 {more}, {ROWS_OF_BLOCK}"), rows)


def _bind_kept(e: Emitter, strips: Strips, begin: str) -> None:
    """Bind the kept arrays of the strip that begins with point ``begin`` of a row, an i64."""
    for array, address in zip(strips.walks.kept, strips.rows, strict=True):
        size = dtype_of(array).size_bytes
        behind = e.op(f"sub i64 0, {e.op(f'mul i64 {begin}, {size}')}")
        # Where the element of the launch index 0 would be.
        data = e.op(f"getelementptr i8, ptr {address}, i64 {behind}")
        e.bind(array, ArrayValue(data, (str(strips.width),), (str(size),)))
