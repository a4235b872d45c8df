"""How the lanes of a kernel's code access elements of arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import prod

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.base.errors import SrcLoc
from kernelcore.codegen.analysis.component_groups import rows_apart
from kernelcore.codegen.analysis.row_blocks import accesses_in_blocks
from kernelcore.codegen.analysis.uniformity import Strides, lane_strides, stride_of
from kernelcore.codegen.simd.bodies import Bodies
from kernelcore.codegen.simd.gang_work import is_dense, moving_axes
from kernelcore.codegen.simd.row_transfer import BLOCK
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.explain.loops import blocks_of, lane_strides_of
from kernelcore.ir.core import Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, AddForm, OpKind
from kernelcore.ir.walk import array_type, element_indices, walk_eqns
from kernelcore.passes.access.accumulation_plan import form_of

_KINDS: Mapping[OpKind, str] = {
    OpKind.LOAD: "load",
    OpKind.STORE: "store",
    OpKind.ATOMIC_ADD: "add to",
}
_FORMS: Mapping[AddForm, str] = {
    AddForm.OWNED: "no other thread touches the element",
    AddForm.SHARED: "threads share elements: sums are made in a fixed order",
    AddForm.PARTIAL: "threads share elements: each chunk of threads sums its own part first",
    AddForm.ATOMIC: "by atomic instructions, in any order",
}


@dataclass(frozen=True, slots=True)
class Access:
    """One access of an element in the source.

    Attributes:
        loc: Where it is; None in code that the compiler made.
        kind: 'load', 'store', 'add to' or 'update'.
        array: The parameter that holds the array.
        size_bytes: Of an element, or of one component of an element.
        how: How lanes access their elements.
        is_scattered: Whether each lane accesses its element by itself.
        note: What an addition needs besides; empty for others.
    """

    loc: SrcLoc | None
    kind: str
    array: str
    size_bytes: int
    how: str
    is_scattered: bool
    note: str = ""

    def __str__(self) -> str:
        text = f"{self.kind} {self.array}: {self.how}"
        return f"{text}; {self.note}" if self.note else text


def accesses_of(func: Func, strategy: VectorStrategy, bodies: Bodies) -> Iterator[Access]:
    """The accesses of ``func``, which has ``bodies``, in program order."""
    along, blocks = lane_strides_of(func, strategy), blocks_of(func, strategy)
    in_blocks = accesses_in_blocks({e: loop for e, loop in blocks.items() if loop.by_rows is None})
    middle = None if bodies.middle is None else bodies.middle.func
    rows = rows_apart(func) if strategy.gang > 1 else ()
    in_squares = bodies.squares is not None
    return _accesses(func, along, in_blocks, middle, rows, in_squares=in_squares)


def _accesses(
    func: Func,
    strides: Mapping[Eqn, Strides],
    in_blocks: Collection[Eqn] = (),
    middle: Func | None = None,
    rows: Collection[Eqn] = (),
    *,
    in_squares: bool = False,
) -> Iterator[Access]:
    """The accesses of ``func`` in program order, the same ones of one place once.

    Args:
        func: The kernel.
        strides: For the accesses whose lanes run together, by how much values grow from lane to
            lane.
        in_blocks: The accesses that are made for several iterations of a loop at once.
        middle: The kernel for the middle of rows, if that has code of its own.
        rows: The accesses of components that lanes make together where elements lie apart.
        in_squares: Whether gangs run several rows of the grid, and transpose what lies apart.
    """
    apart = None if middle is None else _apart(middle)
    seen = set[tuple[SrcLoc | None, str, str, str]]()
    for eqn in walk_eqns(func.body):
        if eqn.op.kind not in ACCESSES:
            continue
        found = _access(eqn, strides.get(eqn), is_in_block=eqn in in_blocks)
        if eqn in rows and found.is_scattered:
            count = prod(array_type(eqn).components)
            found = replace(found, how=f"an element of {count} components per lane, transposed")
        if apart is not None and found.is_scattered and _key(found) not in apart:
            found = replace(found, how=f"{found.how}; in the middle of a row, adjacent elements")
        if in_squares and found.is_scattered:
            how = f"{found.how}; {BLOCK} rows of the grid together, transposed in registers"
            found = replace(found, how=how)
        # Components of one element are one access of the source.
        key = (found.loc, found.kind, found.array, found.how)
        if key not in seen:
            seen.add(key)
            yield found


def _apart(middle: Func) -> set[tuple[SrcLoc | None, str, str]]:
    """The accesses that lanes make one by one also in the middle of rows."""
    strides = dict.fromkeys(walk_eqns(middle.body), lane_strides(middle))
    return {_key(a) for a in _accesses(middle, strides) if a.is_scattered}


def _key(access: Access) -> tuple[SrcLoc | None, str, str]:
    return access.loc, access.kind, access.array


def _access(eqn: Eqn, strides: Strides | None, *, is_in_block: bool) -> Access:
    type_, array = array_type(eqn), eqn.inputs[0]
    assert isinstance(array, Var)
    is_addition = eqn.op.kind is OpKind.ATOMIC_ADD
    how, is_scattered = ("one element at a time", False) if strides is None else _how(eqn, strides)
    if is_in_block:
        how, is_scattered = f"{BLOCK} elements of a row per lane, transposed in registers", False
    return Access(
        eqn.loc,
        _KINDS.get(eqn.op.kind, "update"),
        array.name,
        type_.dtype.size_bytes,
        how,
        is_scattered,
        _FORMS[form_of(eqn)] if is_addition else "",
    )


def _how(eqn: Eqn, strides: Strides) -> tuple[str, bool]:
    """How lanes access the element of ``eqn``, and whether they do so one by one."""
    type_, moving = array_type(eqn), moving_axes(eqn, strides)
    if not moving:
        return "one element for all lanes", False
    if is_dense(eqn, moving, strides):
        count = prod(type_.components)
        if type_.components and type_.named:
            return f"adjacent rows of {count} elements, which are sorted into registers", False
        if type_.components:
            return f"adjacent elements, whose {count} components are sorted into registers", False
        return "adjacent elements", False
    axis, last = moving[0], type_.outer_ndim - 1
    step = stride_of(strides, element_indices(eqn)[axis])
    if len(moving) > 1 or step is None:
        return "element by element, at indices that differ without a fixed step", True
    if axis == last and not type_.components:
        return f"element by element, {abs(step)} apart on the last axis", True
    if axis > last:
        return "component by component, at an index that differs among lanes", True
    if axis == last:
        return f"element by element, {abs(step)} apart", True
    return f"element by element: lanes differ on axis {axis}, and axis {last} is adjacent", True
