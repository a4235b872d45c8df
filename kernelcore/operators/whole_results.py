"""Results that a kernel writes as a whole: their memory need not be zero before the launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Protocol

from kernelcore.base.dataclass import replace
from kernelcore.compiler.launch_descriptor import Binding, Role, ZeroFill
from kernelcore.ir.core import Atom, Func
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.access.final_elements import (
    ArrayAxis,
    Covers,
    GridAxis,
    Range,
    first_writes,
    with_stores,
)

# Extents that are equal are so in every call.
Shape = Sequence[object]


class _Result(Protocol):
    """A result of an Operation."""

    @property
    def shape(self) -> Shape: ...


def without_zeros(
    func: Func,
    bindings: tuple[Binding, ...],
    shape_of_operand: Callable[[int], Shape],
    results: Sequence[_Result],
    grid: Shape,
) -> tuple[Func, tuple[Binding, ...]]:
    """A kernel and its bindings with no zeros for new results that it writes as a whole.

    Where the kernel adds to such a result, the addition that reaches an element first stores it.
    """
    made = [
        at
        for at, bound in enumerate(bindings)
        if bound.role is Role.OUTPUT and bound.operand < 0 and bound.zero is not ZeroFill.NEVER
    ]
    if not made:
        return func, bindings
    shape_of: dict[Atom, Shape] = {
        param: shape_of_operand(bound.operand)
        if bound.operand >= 0
        else results[bound.result].shape
        for param, bound in zip(func.params, bindings, strict=True)
    }

    accesses, goes_through = AccessMap(func), covers(shape_of, grid)
    writes = {at: first_writes(accesses, func.params[at], goes_through) for at in made}
    whole = {at: eqns for at, eqns in writes.items() if eqns is not None}
    launched = tuple(
        replace(bound, zero=ZeroFill.NEVER) if at in whole else bound
        for at, bound in enumerate(bindings)
    )
    return with_stores(func, chain(*whole.values())), launched


def covers(shape_of: Mapping[Atom, Shape], grid: Shape) -> Covers:
    """Whether an axis is as long as what an index goes through, for arrays of these shapes."""

    def goes_through(axis: ArrayAxis, index_range: Range) -> bool:
        match index_range:
            case GridAxis(at):
                found = grid[at]
            case ArrayAxis(array, at):
                found = shape_of[array][at]
        return found == shape_of[axis.array][axis.axis]

    return goes_through
