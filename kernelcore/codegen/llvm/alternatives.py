"""Other code of a kernel, which some launches run instead of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.analysis.carried_elements import CarriedElements
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.llvm.trips import launch_trips
from kernelcore.codegen.simd.lane_axis import OtherAxis
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import SCALAR_CODE, ShortLoops, ShortRows, VectorStrategy
from kernelcore.ir.core import Func


@dataclass(frozen=True, slots=True)
class Alternative:
    """The code.

    Attributes:
        symbol: The name of its function.
        func: The kernel that it is generated from, whose parameters are those of the other.
        strategy: How it uses SIMD registers.
        axes: The order of its launch axes.
        is_taken: Emits whether a launch runs it, as i1, given the extents of the grid; the
            arguments of the kernel are bound.
    """

    symbol: str
    func: Func
    strategy: VectorStrategy
    axes: Sequence[int]
    is_taken: Callable[[Emitter, Sequence[str]], str]


def along_other_axis(found: OtherAxis, strategy: VectorStrategy) -> Alternative:
    """Lanes along another axis, for launches that are longer on that than on the last one."""

    def is_taken(e: Emitter, dims: Sequence[str]) -> str:
        is_longer = e.op(f"icmp sgt i64 {dims[found.axis]}, {dims[-1]}")
        if not found.most_points:
            return is_longer
        has_few = e.op(f"icmp sle i64 {dims[-1]}, {found.most_points}")
        return e.op(f"and i1 {is_longer}, {has_few}")

    return Alternative("@kc.other_axis", found.func, strategy, found.axes, is_taken)


def as_written(func: Func, found: CarriedElements) -> Alternative:
    """``func`` as written, for launches whose loops cannot carry elements."""

    def is_taken(e: Emitter, dims: Sequence[str]) -> str:
        del dims
        result = "false"
        for pair in found.apart:
            is_apart = f"or i1 {memory.are_apart(e, *pair)}, {memory.rows_interleave(e, *pair)}"
            share = e.op(f"xor i1 {e.op(is_apart)}, true")
            result = e.op(f"or i1 {result}, {share}")
        for bounds in found.bounds:
            is_empty = e.op(f"icmp eq i64 {launch_trips(e, found.func, bounds)}, 0")
            result = e.op(f"or i1 {result}, {is_empty}")
        return result

    return Alternative("@kc.as_written", func, SCALAR_CODE, range(func.rank), is_taken)


def of_short_loops(func: Func, found: ShortLoops) -> Alternative:
    """Gangs of threads, for launches whose loops do not fill the registers that they could."""

    def is_taken(e: Emitter, dims: Sequence[str]) -> str:
        del dims
        result = "true"
        for bounds in found.bounds:
            is_short = e.op(f"icmp ult i64 {launch_trips(e, func, bounds)}, {LOOP_LANES}")
            result = e.op(f"and i1 {result}, {is_short}")
        return result

    return Alternative("@kc.short_loops", func, found.strategy, range(func.rank), is_taken)


def of_short_rows(func: Func, found: ShortRows) -> Alternative:
    """Narrower gangs of threads, for launches whose rows fill a part of the wide ones."""

    def is_taken(e: Emitter, dims: Sequence[str]) -> str:
        return e.op(f"icmp sle i64 {dims[-1]}, {found.most_points}")

    return Alternative("@kc.short_rows", func, found.strategy, range(func.rank), is_taken)
