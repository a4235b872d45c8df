"""Several points of a thread at once: code of kernels that wait for memory.

A thread that has one point at a time asks for few bytes and waits. If the points of a kernel are
short straight code, a thread takes ``POINTS`` of them, and each operation is emitted for all of
them before the next one: their loads are under way together. A block takes a tile of adjacent
points; those of a thread lie ``ntid`` apart, so that the threads of a warp have adjacent ones.
docs/decisions/280 has the figures.

Points of a GPU run in any order and at once, so that nothing is said of the order of their loads
and stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.gpu.warp_reduction import wide_register
from kernelcore.codegen.llvm import exits
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.simd.gang_work import work_in
from kernelcore.ir.core import Atom, Func, Var
from kernelcore.ir.op import REPEATABLE, OpKind
from kernelcore.ir.walk import clone_eqn
from kernelcore.language.types import ArrayType

# The launcher has the same number (``kPointsPerThread`` in csrc/cuda/kernel.cc).
POINTS = 4
# Limits of one point. Four longer points take so many registers that fewer threads are resident.
MAX_EQNS, MAX_INSTRUCTIONS = 64, 200
_STRAIGHT_KINDS = REPEATABLE | {OpKind.LOAD, OpKind.STORE}


def is_memory_bound(func: Func) -> bool:
    """Whether the points of ``func`` are short straight code that loads scalars."""
    eqns = func.body.eqns
    kinds = {eqn.op.kind for eqn in eqns}
    if len(eqns) > MAX_EQNS or OpKind.LOAD not in kinds or not kinds <= _STRAIGHT_KINDS:
        return False
    # Loads of vectors are wider, and have code for packed arrays.
    if any(isinstance(p.type, ArrayType) and p.type.components for p in func.params):
        return False
    return work_in(eqns, lane_strides(func), ()).instructions <= MAX_INSTRUCTIONS


def emit(
    e: Emitter,
    func: Func,
    point_at: Callable[[str], tuple[str, ...]],
    one_by_one: Callable[[str, str], None],
) -> None:
    """The body of a kernel for the tiles of a block.

    Args:
        e: The emitter.
        func: A kernel that ``is_memory_bound``.
        point_at: Emits the launch index at a position.
        one_by_one: Emits the body for positions from one on with a step between them.
    """
    threads, blocks = (wide_register(e, name) for name in ("ntid.x", "nctaid.x"))
    thread, block = (wide_register(e, name) for name in ("tid.x", "ctaid.x"))

    def first_of(points: str) -> str:
        """The first position of the thread if a block has ``points`` positions."""
        number = e.op(f"add i64 {e.op(f'mul i64 {block}, {points}')}, {thread}")
        return e.op(f"add i64 %begin, {number}")

    tile = e.op(f"mul i64 {threads}, {POINTS}")
    single, start = first_of(threads), first_of(tile)
    every, stride = (e.op(f"mul i64 {blocks}, {points}") for points in (threads, tile))
    head, one, several, whole = (e.label(hint) for hint in ("head", "one", "several", "whole"))
    # Where every thread has one point at most, all of them get one.
    is_single = e.op(f"icmp sge i64 {every}, {e.op('sub i64 %end, %begin')}")
    before = e.block
    e.branch(is_single, one, head)
    e.start_block(head)
    position = e.phi("i64", (start, before))
    e.branch(e.op(f"icmp slt i64 {position}, %end"), several, exits.FINISH_BLOCK)
    e.start_block(several)
    last = e.op(f"add i64 {position}, {e.op(f'mul i64 {threads}, {POINTS - 1}')}")
    e.branch(e.op(f"icmp slt i64 {last}, %end"), whole, one)
    e.start_block(whole)
    positions = [position]
    for _ in range(POINTS - 1):
        positions.append(e.op(f"add i64 {positions[-1]}, {threads}"))
    _emit_together(e, func, [point_at(p) for p in positions])
    e.add_edge(position, e.op(f"add i64 {position}, {stride}"), e.block)
    e.jump(head)
    # The points that the last tile lacks, or that are one a thread.
    e.start_block(one)
    first = e.phi("i64", (single, before), (position, several))
    step = e.phi("i64", (every, before), (threads, several))
    one_by_one(first, step)


def _emit_together(e: Emitter, func: Func, points: Sequence[tuple[str, ...]]) -> None:
    """Every operation of ``func`` for all ``points`` before the next one."""
    copies: list[dict[Var, Atom]] = [{} for _ in points]
    for eqn in func.body.eqns:
        for point, names in zip(points, copies, strict=True):
            e.point = point
            e.eqn(clone_eqn(eqn, names))
