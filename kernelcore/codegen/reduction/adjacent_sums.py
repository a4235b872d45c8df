"""Additions of a gang to adjacent elements, as the components of a vector, made together."""

from __future__ import annotations

from functools import cache

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.analysis.component_groups import element_in_row
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.blocks import repeat
from kernelcore.codegen.llvm.emitter import Emitter, Lanes
from kernelcore.codegen.llvm.module_function import ModuleFunction, call, finished
from kernelcore.codegen.reduction import lane_trees
from kernelcore.codegen.reduction.accumulate import Ways, add_either_way, shared_flag
from kernelcore.codegen.reduction.accumulation import LaneTrees
from kernelcore.codegen.reduction.element_add import add_together, summed
from kernelcore.codegen.simd.masked_control import or_nothing
from kernelcore.codegen.simd.vector_access import load_adjacent, store_adjacent
from kernelcore.ir.core import Eqn
from kernelcore.ir.walk import array_type, element_indices
from kernelcore.language.types import Scalar

# What is passed first to functions that add in the way that the launch allows.
ASKED = "ptr %log, i1 %is_shared, "


@dataclass(frozen=True, slots=True)
class _Row:
    """A function that adds ``count`` numbers to as many adjacent elements.

    Attributes:
        dtype: Their type.
        count: How many there are.
        width: How many fill a register.
        asks: Whether the call says if other threads may add to the elements; else none may.
    """

    dtype: Scalar
    count: int
    width: int
    asks: bool

    @property
    def symbol(self) -> str:
        words = ["kc", "add_row", self.dtype.name, str(self.count), str(self.width)]
        return ".".join([*words, "asks"] if self.asks else words)


def joins(e: Emitter, eqn: Eqn) -> bool:
    """Whether the addition ``eqn`` is made together with others, to elements beside its own."""
    if e.gang == 1 or eqn not in e.facts.adjacent_sums or not e.is_uniform(*element_indices(eqn)):
        return False
    size_bytes = array_type(eqn).dtype.size_bytes
    is_packed = e.array(eqn.inputs[0]).strides[-1] == str(size_bytes)
    return is_packed and size_bytes >= e.facts.least_masked_bytes


def emit_adjacent(e: Emitter, eqn: Eqn) -> list[str]:
    """Join what lanes add to one element to a tree; the last addition of a run makes all.

    Runs are found in the kernel whose code is emitted, so that they have the order of this.
    """
    run, dtype = e.facts.adjacent_sums[eqn], array_type(eqn).dtype
    assert e.accumulation is not None
    width = min(e.gang, lane_trees.register_bytes(e) // dtype.size_bytes)
    if eqn is run[0]:
        first = min(run, key=element_in_row)
        e.accumulation.trees[run] = first, LaneTrees(dtype, e.gang, width)
    first, trees = e.accumulation.trees[run]
    place = element_in_row(eqn) - element_in_row(first)
    lane_trees.add(e, trees, place, or_nothing(e, eqn.inputs[-1]))
    if eqn is run[-1]:
        totals = lane_trees.finished(e, trees)
        kept = e.slot(f"[{len(totals) * width} x {LLVM_TYPES[dtype.name]}], align 64")
        for at, total in enumerate(totals):
            with e.at(width):
                memory.store(
                    e, dtype, total, memory.address_at(e, kept, at * width * dtype.size_bytes)
                )
        with e.at(1):
            address = memory.element(e, first)[1]
        _add_row(e, eqn, len(run), width, f"ptr {address}, ptr {kept}")
    return ["poison"]


def _add_row(e: Emitter, eqn: Eqn, count: int, width: int, passed: str) -> None:
    """Add to a row by a call: a branch here would part the code around it."""
    is_shared = shared_flag(e, eqn)
    row = _Row(array_type(eqn).dtype, count, width, is_shared is not None)
    call(e, _function(row, e.facts.attributes), asked(e, is_shared) + passed)


def asked(e: Emitter, is_shared: str | None) -> str:
    """What is passed for ``ASKED``; nothing where no other thread ever adds."""
    assert e.accumulation is not None
    return "" if is_shared is None else f"ptr {e.accumulation.log}, i1 {is_shared}, "


def add_as_asked(e: Emitter, ways: Ways, *, asks: bool) -> None:
    """The body of a function that has the parameters ``ASKED`` if ``asks``."""
    if asks:
        add_either_way(e, "%is_shared", ways)
    else:
        ways.alone()


@cache
def _function(row: _Row, attributes: tuple[tuple[str, str], ...]) -> ModuleFunction:
    e = Emitter(Lanes())
    ways = Ways(
        lambda: append_row(e, row.dtype, "%kept", str(row.count)), lambda: _add_alone(e, row)
    )
    add_as_asked(e, ways, asks=row.asks)
    params = f"{ASKED if row.asks else ''}ptr %row, ptr %kept"
    return finished(e, row.symbol, params, dict(attributes))


def _add_alone(e: Emitter, row: _Row) -> None:
    dtype, width = row.dtype, row.width
    for start in range(0, row.count, width):
        left = min(width, row.count - start)
        mask = None if left == width else ", ".join(f"i1 {int(k < left)}" for k in range(width))
        mask = mask and f"<{mask}>"
        address, place = (
            memory.address_at(e, base, start * dtype.size_bytes) for base in ("%row", "%kept")
        )
        old = load_adjacent(e, dtype, width, address, mask)
        with e.at(width):
            new = summed(e, dtype, old, memory.load(e, dtype, place))
        store_adjacent(e, dtype, width, new, address, mask)


def append_row(e: Emitter, dtype: Scalar, kept: str, size: str, *, is_down: bool = False) -> None:
    """Add ``size`` numbers at ``kept``, an i64, to the elements from %row on, by the log."""
    ty, step = LLVM_TYPES[dtype.name], -dtype.size_bytes if is_down else dtype.size_bytes

    def append(at: str) -> None:
        value = e.op(f"load {ty}, ptr {e.op(f'getelementptr {ty}, ptr {kept}, i64 {at}')}")
        address = e.op(f"getelementptr i8, ptr %row, i64 {e.op(f'mul i64 {at}, {step}')}")
        with e.at(1):
            add_together(e, "%log", dtype, address, value, in_place=True)

    repeat(e, size, append)
