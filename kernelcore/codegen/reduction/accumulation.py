"""Values that the code of a kernel needs to add to arrays that threads share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kernelcore.base.dataclass import dataclass, field
from kernelcore.codegen.analysis.row_blocks import blocked_loops
from kernelcore.codegen.analysis.uniformity import Strides, lane_strides
from kernelcore.ir.core import Atom, Eqn, Func, Var
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import is_in_loop, walk_eqns, walk_paths
from kernelcore.language.types import FLOATS, Scalar
from kernelcore.passes.access.accumulation_plan import form_of


@dataclass(frozen=True, slots=True)
class PartialSums:
    """Partial sums of one addition: their address, and that of a byte that says if any is used."""

    sums: str
    is_used: str


@dataclass(frozen=True, slots=True)
class JoinedAdditions:
    """Additions of a stencil: to one array, at indices that differ by constants in the last axis.

    Attributes:
        eqns: The additions, in order; they are made in the place of the last one.
        indices: The shared outer indices, and the base of the last one.
        origin: The offset from the base of the elements that are loaded at once.
        offsets: The offset of each addition from those elements.
    """

    eqns: tuple[Eqn, ...]
    indices: tuple[Atom, ...]
    origin: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LaneTrees:
    """Sums over lanes that are being made (``lane_trees.py``).

    Attributes:
        dtype: The type of the values.
        lanes: The lanes of a value.
        width: The totals of a register.
        waiting: What has no partner yet, by register, lanes left of each value, and place.
        totals: The registers of totals that are complete, by number.
    """

    dtype: Scalar
    lanes: int
    width: int
    waiting: dict[tuple[int, int, int], str] = field(
        default_factory=dict[tuple[int, int, int], str]
    )
    totals: dict[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The accumulated arrays of a kernel while its code is emitted.

    Attributes:
        shared: Per array an i1: whether other threads may add to it during the call.
        log: The address of the log of additions.
        partial: The partial sums of every addition in PARTIAL form.
        neighbours: The additions that a gang joins in registers, by each of them.
        trees: The sums over lanes of runs of additions to adjacent elements, by run, with the
            addition to the first element.
        brief: Additions outside of loops in kernels with loops: short code matters more there.
        in_place: Whether additions that are not brief append to the log without a call.
        meeting: Additions in SHARED form for which a warp may share one element.
    """

    func: Func
    shared: Mapping[Var, str] = field(default_factory=dict[Var, str])
    log: str = ""
    partial: Mapping[Eqn, PartialSums] = field(default_factory=dict[Eqn, PartialSums])
    neighbours: Mapping[Eqn, JoinedAdditions] = field(default_factory=dict[Eqn, JoinedAdditions])
    trees: dict[tuple[Eqn, ...], tuple[Eqn, LaneTrees]] = field(
        default_factory=dict[tuple[Eqn, ...], tuple[Eqn, LaneTrees]]
    )
    brief: frozenset[Eqn] = frozenset()
    in_place: bool = False
    meeting: frozenset[Eqn] = frozenset()


@lru_cache(maxsize=4)
def adds_in_order(func: Func) -> bool:
    """Whether a gang adds to shared elements in the order of single threads."""
    arrays: list[Atom] = []
    strides = lane_strides(func)
    along_rows = _in_loops_along_rows(func, strides)
    for eqn, path in walk_paths(func.body):
        if _is_ordered(eqn):
            arrays.append(eqn.inputs[0])
            if eqn in along_rows:
                continue
            # A gang that adds to one element adds up its lanes first.
            is_apart = any(strides.get(i) != 0 for i in eqn.inputs[1:-1] if isinstance(i, Var))
            if is_in_loop(path) or not is_apart:
                return False
    return len(set(arrays)) == len(arrays)


def _in_loops_along_rows(func: Func, strides: Strides) -> frozenset[Eqn]:
    """What lanes do one after the other, as single threads: whole loops along rows."""
    found = blocked_loops(func, strides)
    # In a loop around one, lanes take turns.
    loops = [found[eqn].by_rows for eqn in func.body.eqns if eqn in found]
    return frozenset(e for loop in loops if loop is not None for e in walk_eqns(loop.body))


def _is_ordered(eqn: Eqn) -> bool:
    """Whether the order in which the lanes of a gang make ``eqn`` decides the bits of a sum."""
    if eqn.op.kind is not OpKind.ATOMIC_ADD or eqn.inputs[-1].type not in FLOATS:
        return False
    return form_of(eqn) in (AddForm.SHARED, AddForm.ATOMIC)
