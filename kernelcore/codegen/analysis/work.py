"""The work of one thread: operations of floats, bytes, and instructions by source line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import SrcLoc
from kernelcore.codegen.llvm.emitter import scalar_type
from kernelcore.codegen.llvm.instruction_cost import SLOW, instructions_of, slow_instructions
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, LOOPS, READS, WRITES, OpKind
from kernelcore.ir.walk import array_type, walk_eqns

# What a loop whose iterations are not known counts in the shares of source lines.
ASSUMED_TRIPS = 16
_FLOAT_OPERATIONS = {
    **dict.fromkeys(("fadd", "fsub", "fmul", "fdiv", "llvm.sqrt"), 1),
    **dict.fromkeys(("llvm.fma", "llvm.fmuladd"), 2),
}


@dataclass
class Counts:
    """What one thread does at most: a branch counts with its larger arm.

    Attributes:
        flops: Additions, multiplications, quotients and square roots of floats.
        loaded_bytes: Of the elements that it loads.
        stored_bytes: Of the elements that it stores or adds to.
        is_known: Whether the iterations of all loops are known; others count once.
    """

    flops: float = 0
    loaded_bytes: float = 0
    stored_bytes: float = 0
    is_known: bool = True

    def add(self, other: Counts, times: float = 1) -> None:
        """Count ``times`` what ``other`` counts."""
        self.flops += times * other.flops
        self.loaded_bytes += times * other.loaded_bytes
        self.stored_bytes += times * other.stored_bytes
        self.is_known &= other.is_known


@dataclass
class Work:
    """What one thread does, and where.

    Attributes:
        counts: In total.
        cost: Estimated instructions by line of a file.
        trips: The iterations of every loop; None where they are known at run time only.
    """

    counts: Counts
    cost: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    trips: dict[Eqn, int | None] = field(default_factory=dict[Eqn, int | None])


def work_of(
    func: Func,
    arguments: Sequence[Any] | None = None,
    counts: Callable[[Eqn], bool] = lambda _: True,
) -> Work:
    """The work of a thread of ``func``.

    Args:
        func: The kernel.
        arguments: One per parameter; they tell extents.
        counts: Whether an equation without regions counts.
    """
    counter = _Counter(func, arguments, counts)
    return Work(counter.region(func.body, 1.0), dict(counter.cost), counter.trips)


class _Counter:
    def __init__(
        self, func: Func, arguments: Sequence[Any] | None, counts: Callable[[Eqn], bool]
    ) -> None:
        self.counts = counts
        given = zip(func.params, arguments, strict=True) if arguments is not None else ()
        self.arguments: Mapping[Var, Any] = dict(given)
        self.makers = {out: eqn for eqn in walk_eqns(func.body) for out in eqn.outputs}
        self.cost: dict[tuple[str, int], float] = defaultdict(float)
        self.trips: dict[Eqn, int | None] = {}

    def region(self, region: Region, times: float) -> Counts:
        total = Counts()
        for eqn in region.eqns:
            if eqn.regions:
                total.add(self.control(eqn, times))
            elif self.counts(eqn):
                total.add(self.simple(eqn, times))
        return total

    def control(self, eqn: Eqn, times: float) -> Counts:
        if eqn.op.kind not in LOOPS:
            arms = [self.region(region, times) for region in eqn.regions]
            return max(arms, key=lambda c: c.flops + c.loaded_bytes + c.stored_bytes)
        trips = self.trips[eqn] = self.iterations(eqn)
        assumed = ASSUMED_TRIPS if trips is None else trips
        total = Counts(is_known=trips is not None)
        for region in eqn.regions:
            total.add(self.region(region, times * assumed), 1 if trips is None else trips)
        return total

    def simple(self, eqn: Eqn, times: float) -> Counts:
        found, instructions = Counts(), 1
        if eqn.op.kind is OpKind.PURE:
            texts = instructions_of(eqn)
            instructions = len(texts) + SLOW * slow_instructions(eqn)
            if scalar_type(eqn.inputs[-1]).is_float:
                found.flops = sum(_flops(text) for text in texts)
        elif eqn.op.kind in ACCESSES:
            size_bytes = array_type(eqn).dtype.size_bytes
            found.loaded_bytes = size_bytes if eqn.op.kind in READS else 0
            found.stored_bytes = size_bytes if eqn.op.kind in WRITES else 0
        if eqn.loc is not None:
            self.cost[place(eqn.loc)] += times * instructions
        return found

    def iterations(self, eqn: Eqn) -> int | None:
        if eqn.op.kind is not OpKind.FOR:
            return None
        start, stop, step = (self.value(atom) for atom in eqn.inputs[:3])
        if start is None or stop is None or not step:
            return None
        return len(range(int(start), int(stop), int(step)))

    def value(self, atom: Atom) -> Any:
        """What every thread computes for ``atom``; None if threads or loads decide."""
        if isinstance(atom, Const):
            return atom.type.numpy.type(atom.value)
        if atom not in self.makers:
            return self.arguments.get(atom) if atom in self.arguments else None
        eqn = self.makers[atom]
        if eqn.op.kind is OpKind.DIM:
            array = self.arguments.get(eqn.inputs[0]) if isinstance(eqn.inputs[0], Var) else None
            return None if array is None else np.int32(np.shape(array)[eqn.attrs["axis"]])
        if eqn.op.kind not in (OpKind.PURE, OpKind.CAST):
            return None
        inputs = [self.value(a) for a in eqn.inputs]
        if any(v is None for v in inputs):
            return None
        if eqn.op.kind is OpKind.CAST:
            return scalar_type(eqn.out).numpy.type(inputs[0])
        assert eqn.op.ref is not None
        with np.errstate(all="ignore"):
            return eqn.op.ref(*inputs)


def _flops(text: str) -> int:
    return next((n for name, n in _FLOAT_OPERATIONS.items() if name in text), 0)


def place(loc: SrcLoc) -> tuple[str, int]:
    """The line of ``loc``."""
    return loc.file, loc.line
