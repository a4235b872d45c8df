"""Sums over the lanes of a gang, each for the element of one iteration of a row block.

Those of all iterations of the block are added up together (``lane_trees.py``), and added to their
elements in one access.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.blocks import resized
from kernelcore.codegen.llvm.emitter import Emitter, Lanes
from kernelcore.codegen.llvm.module_function import ModuleFunction, call, finished
from kernelcore.codegen.reduction import lane_trees
from kernelcore.codegen.reduction.accumulate import Ways, shared_flag
from kernelcore.codegen.reduction.accumulation import LaneTrees
from kernelcore.codegen.reduction.adjacent_sums import ASKED, add_as_asked, append_row, asked
from kernelcore.codegen.reduction.element_add import summed
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
        asks: Whether the call says if other threads may add to the elements; else none may.
        width: How many totals fill a register.
    """

    dtype: Scalar
    gang: int
    block: int
    is_down: bool
    asks: bool
    width: int

    @property
    def symbol(self) -> str:
        words = ["kc", "totals", self.dtype.name, str(self.gang), str(self.block)]
        marks = ((self.is_down, "down"), (self.asks, "asks"))
        return ".".join([*words, *(word for is_so, word in marks if is_so)])

    @property
    def params(self) -> str:
        return f"{ASKED if self.asks else ''}ptr %row, i32 %size, ptr %slot"

    def iteration(self, place: int) -> int:
        """The iteration whose element is at ``place`` in memory."""
        return self.block - 1 - place if self.is_down else place


def add_block(e: Emitter, found: BlockSum, block: int, size: str) -> None:
    """Make the addition ``found`` for the ``size`` iterations of a block of at most ``block``."""
    dtype, is_shared = array_type(found.eqn).dtype, shared_flag(e, found.eqn)
    width = min(block, e.gang, lane_trees.register_bytes(e) // dtype.size_bytes)
    what = _Totals(dtype, e.gang, block, found.step < 0, is_shared is not None, width)
    passed = f"{asked(e, is_shared)}ptr {found.address}, i32 {size}, ptr {found.slot}"
    call(e, _function(what, e.facts.attributes), passed)


@cache
def _function(what: _Totals, attributes: tuple[tuple[str, str], ...]) -> ModuleFunction:
    e = Emitter(Lanes(what.gang))
    ways = Ways(lambda: _emit_shared(e, what), lambda: _emit_alone(e, what))
    add_as_asked(e, ways, asks=what.asks)
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
    append_row(e, dtype, kept, resized(e, "%size", "i32", "i64"), is_down=what.is_down)


def _totals(e: Emitter, what: _Totals, iterations: Sequence[int]) -> str:
    """The sums over the lanes of the values of ``iterations``, ``what.width`` of them."""
    dtype, lanes = what.dtype, what.gang
    ty, size_bytes = LLVM_TYPES[dtype.name], dtype.size_bytes
    trees = LaneTrees(dtype, lanes, what.width)
    for at, k in enumerate(iterations):
        place = memory.address_at(e, "%slot", k * lanes * size_bytes)
        value = e.op(f"load <{lanes} x {ty}>, ptr {place}, align {size_bytes}")
        lane_trees.add(e, trees, at, value)
    return lane_trees.finished(e, trees)[0]
