"""Sums over the lanes of a gang for several values, in registers that they share.

The lanes of one value are added up as a tree, halves to halves. Once a value takes half of a
register, two share one, so that 16 values of 16 lanes take 15 additions of registers. Each value
gets the total that it would get alone. Four values of four lanes:

    a0 a1 a2 a3   b0 b1 b2 b3           a0+a2 a1+a3 b0+b2 b1+b3
    c0 c1 c2 c3   d0 d1 d2 d3           c0+c2 c1+c3 d0+d2 d1+d3         a b c d
      4 lanes of each value               2 lanes of each value       1 of each
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.reduction.accumulation import LaneTrees
from kernelcore.codegen.reduction.element_add import summed
from kernelcore.codegen.simd.interleaved import shuffled
from kernelcore.language.types import Scalar

# The registers in which elements are sorted, where elements of any size can be masked, and
# elsewhere.
WIDE_BYTES, NARROW_BYTES = 64, 32


def add(e: Emitter, trees: LaneTrees, place: int, value: str) -> None:
    """Take ``value``, whose total is to have this place.

    Two values are joined as soon as both are there, in any order, so that few registers wait.
    """
    lanes = trees.lanes
    while lanes > trees.width:
        halves = [range(at, at + lanes // 2) for at in (0, lanes // 2)]
        value = _added(e, trees.dtype, ([value], lanes), halves)
        lanes //= 2
    register, at = divmod(place, trees.width)
    _join(e, trees, (register, trees.width, at), value)


def finished(e: Emitter, trees: LaneTrees) -> list[str]:
    """The registers of totals. Those of places without a value mean nothing, and are not used.

    Those with most lanes left come first: they are joined to what waits with fewer.
    """
    while trees.waiting:
        key = max(trees.waiting, key=lambda k: k[1])
        register, part, at = key
        value = trees.waiting.pop(key)
        trees.waiting[register, part, at ^ 1] = "poison"
        _join(e, trees, key, value)
    return [trees.totals[k] for k in sorted(trees.totals)]


def _join(e: Emitter, trees: LaneTrees, key: tuple[int, int, int], value: str) -> None:
    register, part, at = key
    while part > 1:
        other = trees.waiting.pop((register, part, at ^ 1), None)
        if other is None:
            trees.waiting[register, part, at] = value
            return
        pair = [other, value] if at & 1 else [value, other]
        starts = range(0, 2 * trees.width, part)
        halves = [
            [start + k for start in starts for k in range(first, first + part // 2)]
            for first in (0, part // 2)
        ]
        value = _added(e, trees.dtype, (pair, trees.width), halves)
        part, at = part // 2, at // 2
    trees.totals[register] = value


def _added(
    e: Emitter, dtype: Scalar, given: tuple[Sequence[str], int], orders: Sequence[Sequence[int]]
) -> str:
    """The elements in the first of two ``orders`` plus those in the second.

    ``given`` are one or two values, and the number of lanes of each.
    """
    (x, *rest), lanes = given
    y = rest[0] if rest else "poison"
    parts = [shuffled(e, LLVM_TYPES[dtype.name], x, lanes, order, y) for order in orders]
    with e.at(len(orders[0])):
        return summed(e, dtype, parts[0], parts[1])


def register_bytes(e: Emitter) -> int:
    """The size of the registers in which the elements of several lanes or rows are sorted."""
    return WIDE_BYTES if e.facts.least_masked_bytes == 1 else NARROW_BYTES
