"""Elements of several components: registers as memory has them, sorted into components.

Lane k has component c of its element at place ``k * count + c``. Where ``count`` and the lanes of
a register have no divisor in common, no two lanes of a component are at the same place of their
registers. So registers are blended, which most units of a processor do, and permuted once. A
two-register shuffle per component would be limited by the shuffle unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.language.types import Scalar

# Size of the widest SIMD register; narrower ones take some more instructions.
REGISTER_BYTES = 64


def register_lanes(gang: int, dtype: Scalar) -> int:
    """How many lanes of a gang have their values of ``dtype`` in one register."""
    return min(gang, REGISTER_BYTES // dtype.size_bytes)


def sorted_lanes(gang: int, count: int, dtype: Scalar) -> int | None:
    """How many elements of ``count`` components of ``dtype`` are sorted at once, if any are."""
    lanes = register_lanes(gang, dtype)
    return lanes if count > 1 and gcd(count, lanes) == 1 else None


def component(e: Emitter, element: str, registers: Sequence[str], number: int) -> str:
    """Component ``number`` of as many elements as a register has lanes."""
    places = [lane * len(registers) + number for lane in range(e.lanes)]
    holder = {place % e.lanes: place // e.lanes for place in places}
    found = _blended(e, element, registers, [holder[k] for k in range(e.lanes)])
    return _permuted(e, element, found, [place % e.lanes for place in places])


def elements(e: Emitter, element: str, components: Sequence[str]) -> list[str]:
    """Interleave ``components``, one register each, into registers in the order of elements."""
    count, permuted = len(components), list[str]()
    for number, register in enumerate(components):
        lane_at = {(lane * count + number) % e.lanes: lane for lane in range(e.lanes)}
        permuted.append(_permuted(e, element, register, [lane_at[k] for k in range(e.lanes)]))
    return [
        _blended(e, element, permuted, [(at * e.lanes + k) % count for k in range(e.lanes)])
        for at in range(count)
    ]


def _blended(e: Emitter, element: str, registers: Sequence[str], holder: Sequence[int]) -> str:
    """Lane k of register ``holder[k]``, for every k."""
    found = registers[0]
    for number, register in enumerate(registers[1:], 1):
        order = [k + e.lanes if holder[k] == number else k for k in range(e.lanes)]
        found = shuffled(e, element, found, e.lanes, order, register)
    return found


def _permuted(e: Emitter, element: str, register: str, order: Sequence[int]) -> str:
    return shuffled(e, element, register, e.lanes, order)


def shuffled(
    e: Emitter, element: str, x: str, count: int, order: Sequence[int], y: str = "poison"
) -> str:
    """The elements ``order`` of ``x`` and ``y``, which have ``count`` each; -1 is any."""
    wide = f"<{count} x {element}>"
    texts = ", ".join("i32 poison" if k < 0 else f"i32 {k}" for k in order)
    return e.op(f"shufflevector {wide} {x}, {wide} {y}, <{len(order)} x i32> <{texts}>")


def resized(e: Emitter, element: str, value: str, count: int, wanted: int) -> str:
    """The first ``wanted`` of ``count`` elements, or these and others that mean nothing."""
    order = [k if k < count else -1 for k in range(wanted)]
    return value if count == wanted else shuffled(e, element, value, count, order)
