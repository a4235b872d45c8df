"""Sums over the lanes of a gang, each for an element of its own, that are made together.

They are those of the iterations of a row block, or those of one iteration for a run of adjacent
elements, as the components of a vector are.

The lanes of one value are added up as a tree (``accumulate.py``), halves to halves. Here several
values are added up together: once a value takes half of a register, two share one. Every element
gets the same total, in one access for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.component_groups import element_in_row
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter, Lanes
from kernelcore.codegen.llvm.module_function import ModuleFunction, call, finished
from kernelcore.codegen.reduction.accumulate import Ways, add_shared, keep_for_block
from kernelcore.codegen.reduction.element_add import add_together, summed
from kernelcore.codegen.simd.interleaved import shuffled
from kernelcore.codegen.simd.vector_access import load_adjacent, store_adjacent
from kernelcore.ir.core import Eqn
from kernelcore.ir.walk import array_type, element_indices
from kernelcore.language.types import Scalar

# The registers in which elements are sorted, where elements of any size can be masked, and
# elsewhere.
WIDE_BYTES, NARROW_BYTES = 64, 32
# Totals of a run of additions that one call makes: as many as fill a register.
MOST_TOTALS = 16


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
        words = ["kc", "totals", self.dtype.name, str(self.gang), str(self.block)]
        marks = ((self.is_down, "down"), (self.is_shared, "shared"))
        return ".".join([*words, *(word for is_so, word in marks if is_so)])

    @property
    def params(self) -> str:
        return f"{'ptr %log, ' if self.is_shared else ''}ptr %row, i32 %size, ptr %slot"

    def iteration(self, place: int) -> int:
        """The iteration whose element is at ``place`` in memory."""
        return self.block - 1 - place if self.is_down else place


def add_block(e: Emitter, found: BlockSum, block: int, size: str) -> None:
    """Make the addition ``found`` for the ``size`` iterations of a block of at most ``block``."""
    what = _totals_of(e, array_type(found.eqn).dtype, block, is_down=found.step < 0)
    _add(e, found.eqn, what, [f"ptr {found.address}, i32 {size}, ptr {found.slot}"])


def joins(e: Emitter, eqn: Eqn) -> bool:
    """Whether the addition ``eqn`` is made together with others, to elements beside its own."""
    if e.gang == 1 or eqn not in e.facts.adjacent_sums or not e.is_uniform(*element_indices(eqn)):
        return False
    size_bytes = array_type(eqn).dtype.size_bytes
    is_packed = e.array(eqn.inputs[0]).strides[-1] == str(size_bytes)
    return is_packed and size_bytes >= e.facts.least_masked_bytes


def emit_adjacent(e: Emitter, eqn: Eqn) -> list[str]:
    """Keep what lanes add to one element; the last addition of a run makes all of them."""
    run, dtype = e.facts.adjacent_sums[eqn], array_type(eqn).dtype
    if eqn is run[0]:
        rows = -(-len(run) // MOST_TOTALS) * MOST_TOTALS
        slot = e.slot(f"[{rows * e.gang} x {LLVM_TYPES[dtype.name]}], align 64")
        first = min(map(element_in_row, run))
        for one in run:
            behind = (element_in_row(one) - first) * e.gang * dtype.size_bytes
            e.row_buffers[one] = memory.address_at(e, slot, behind)
    keep_for_block(e, eqn)
    if eqn is run[-1]:
        lowest = min(run, key=element_in_row)
        with e.at(1):
            address = memory.element(e, lowest)[1]
        passed: list[str] = []
        for at in range(0, len(run), MOST_TOTALS):
            place = memory.address_at(e, address, at * dtype.size_bytes)
            slot = memory.address_at(e, e.row_buffers[lowest], at * e.gang * dtype.size_bytes)
            size = min(MOST_TOTALS, len(run) - at)
            passed.append(f"ptr {place}, i32 {size}, ptr {slot}")
        _add(e, eqn, _totals_of(e, dtype, MOST_TOTALS), passed)
    return ["poison"]


def register_bytes(e: Emitter) -> int:
    """The size of the registers in which the elements of several lanes or rows are sorted."""
    return WIDE_BYTES if e.facts.least_masked_bytes == 1 else NARROW_BYTES


def _totals_of(e: Emitter, dtype: Scalar, block: int, *, is_down: bool = False) -> _Totals:
    width = min(block, e.gang, register_bytes(e) // dtype.size_bytes)
    return _Totals(dtype, e.gang, block, is_down, False, width)


def _add(e: Emitter, eqn: Eqn, what: _Totals, blocks: Sequence[str]) -> None:
    """Call ``what`` for every one of ``blocks``, in the way that the launch allows for ``eqn``."""
    assert e.accumulation is not None
    log = e.accumulation.log

    def together() -> None:
        for passed in blocks:
            shared = replace(what, is_shared=True)
            call(e, _function(shared, e.facts.attributes), f"ptr {log}, {passed}")

    def alone() -> None:
        for passed in blocks:
            call(e, _function(what, e.facts.attributes), passed)

    add_shared(e, eqn, Ways(together, alone))


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
