"""Sums over the lanes of a gang for the iterations of a row block, each for an element of its own.

The lanes of one value are added up as a tree (``accumulate.py``), halves to halves. Here several
values are added up together: once a value takes half of a register, two share one. Every element
gets the same total, in one access for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, Lanes
from kernelcore.codegen.llvm.module_function import ModuleFunction, call, finished
from kernelcore.codegen.reduction.accumulate import Ways, add_shared
from kernelcore.codegen.reduction.element_add import add_together, summed
from kernelcore.codegen.simd.interleaved import shuffled
from kernelcore.codegen.simd.vector_access import load_adjacent, store_adjacent
from kernelcore.ir.core import Eqn
from kernelcore.ir.walk import array_type
from kernelcore.language.types import Scalar


@dataclass(frozen=True, slots=True)
class BlockSum:
    """An addition of a block.

    Attributes:
        eqn: The addition.
        step: By how much its last index grows from iteration to iteration, 1 or -1.
        slot: Where the frame keeps the values of all lanes, iteration after iteration.
        address: The element of the first iteration.
    """

    eqn: Eqn
    step: int
    slot: str
    address: str


@dataclass(frozen=True, slots=True)
class _Totals:
    """A function that adds the totals of up to ``block`` iterations to their elements.

    Attributes:
        dtype: Their type.
        gang: How many lanes there are.
        block: The most iterations.
        is_down: Whether iterations go to lower addresses.
        is_shared: Whether other threads may add to the elements.
        width: How many totals fill a register.
    """

    dtype: Scalar
    gang: int
    block: int
    is_down: bool
    is_shared: bool
    width: int

    @property
    def symbol(self) -> str:
        words = ["kc", "totals", self.dtype.name, str(self.gang)]
        marks = ((self.is_down, "down"), (self.is_shared, "shared"))
        return ".".join([*words, *(word for is_so, word in marks if is_so)])

    @property
    def params(self) -> str:
        return f"{'ptr %log, ' if self.is_shared else ''}ptr %row, i32 %size, ptr %slot"

    def iteration(self, place: int) -> int:
        """The iteration whose element is at ``place`` in memory."""
        return self.block - 1 - place if self.is_down else place


def add_block(e: Emitter, found: BlockSum, block: int, size: str, register_bytes: int) -> None:
    """Make the addition ``found`` for the ``size`` iterations of a block of at most ``block``."""
    assert e.accumulation is not None
    dtype = array_type(found.eqn).dtype
    width = min(block, e.gang, register_bytes // dtype.size_bytes)
    passed = f"ptr {found.address}, i32 {size}, ptr {found.slot}"

    def add(operands: str, *, is_shared: bool) -> None:
        what = _Totals(dtype, e.gang, block, found.step < 0, is_shared, width)
        call(e, _function(what, e.facts.attributes), operands)

    log = e.accumulation.log
    add_shared(
        e,
        found.eqn,
        Ways(
            lambda: add(f"ptr {log}, {passed}", is_shared=True),
            lambda: add(passed, is_shared=False),
        ),
    )


@cache
def _function(what: _Totals, attributes: tuple[tuple[str, str], ...]) -> ModuleFunction:
    e = Emitter(Lanes(what.gang))
    (_emit_shared if what.is_shared else _emit_alone)(e, what)
    return finished(e, what.symbol, what.params, dict(attributes))


def _emit_alone(e: Emitter, what: _Totals) -> None:
    """Add to the elements of the iterations, all at once."""
    dtype, width = what.dtype, what.width
    wide = f"<{width} x i32>"
    first = e.op(f"insertelement {wide} poison, i32 %size, i64 0")
    sizes = e.op(f"shufflevector {wide} {first}, {wide} poison, {wide} zeroinitializer")
    for start in range(0, what.block, width):
        places = range(start, start + width)
        numbers = ", ".join(f"i32 {what.iteration(k)}" for k in places)
        mask = e.op(f"icmp ult {wide} <{numbers}>, {sizes}")
        behind = start - (what.block - 1 if what.is_down else 0)
        address = memory.address_at(e, "%row", behind * dtype.size_bytes)
        total = _totals(e, what, [what.iteration(k) for k in places])
        old = load_adjacent(e, dtype, width, address, mask)
        with e.at(width):
            new = summed(e, dtype, old, total)
        store_adjacent(e, dtype, width, new, address, mask)


def _emit_shared(e: Emitter, what: _Totals) -> None:
    """Add to the element of one iteration after the other in the way for shared elements."""
    dtype, ty = what.dtype, LLVM_TYPES[what.dtype.name]
    kept = e.slot(f"[{what.block} x {ty}], align {memory.CACHE_LINE_BYTES}")
    for start in range(0, what.block, what.width):
        total = _totals(e, what, range(start, start + what.width))
        place = memory.address_at(e, kept, start * dtype.size_bytes)
        with e.at(what.width):
            memory.store(e, dtype, total, place)
    before, head, done = e.block, e.label("iteration"), e.label("iterations_done")
    e.jump_into(head)
    at, address = e.phi("i32", ("0", before)), e.phi("ptr", ("%row", before))
    value = e.op(f"load {ty}, ptr {e.op(f'getelementptr {ty}, ptr {kept}, i32 {at}')}")
    with e.at(1):
        add_together(e, "%log", dtype, address, value, in_place=True)
    following = e.op(f"add nuw i32 {at}, 1")
    step = -dtype.size_bytes if what.is_down else dtype.size_bytes
    e.add_edge(address, memory.address_at(e, address, step), e.block)
    e.add_edge(at, following, e.block)
    e.branch(e.op(f"icmp ult i32 {following}, %size"), head, done)
    e.start_block(done)


def _totals(e: Emitter, what: _Totals, iterations: Sequence[int]) -> str:
    """The sums over the lanes of the values of ``iterations``, ``what.width`` of them."""
    dtype, lanes = what.dtype, what.gang
    ty, size_bytes = LLVM_TYPES[dtype.name], dtype.size_bytes
    found: list[str] = []
    for k in iterations:
        place = memory.address_at(e, "%slot", k * lanes * size_bytes)
        found.append(e.op(f"load <{lanes} x {ty}>, ptr {place}, align {size_bytes}"))
    # What is left of one value's lanes.
    part = lanes
    while lanes > len(iterations):
        halves = [range(at, at + lanes // 2) for at in (0, lanes // 2)]
        found = [_added(e, dtype, ([x], lanes), halves) for x in found]
        lanes, part = lanes // 2, part // 2
    while part > 1:
        halves = [
            [at + k for at in range(0, 2 * lanes, part) for k in range(first, first + part // 2)]
            for first in (0, part // 2)
        ]
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [_added(e, dtype, ([x, y], lanes), halves) for x, y in pairs]
        part //= 2
    return found[0]


def _added(
    e: Emitter, dtype: Scalar, given: tuple[Sequence[str], int], orders: Sequence[Sequence[int]]
) -> str:
    """The sum of the elements in two ``orders`` of one or two values of so many lanes."""
    (x, *rest), lanes = given
    y = rest[0] if rest else "poison"
    ty = LLVM_TYPES[dtype.name]
    parts = [shuffled(e, ty, x, lanes, order, y) for order in orders]
    with e.at(len(orders[0])):
        return summed(e, dtype, parts[0], parts[1])
