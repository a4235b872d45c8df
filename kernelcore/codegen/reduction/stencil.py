"""Additions of a gang to neighbours: overlapping runs of adjacent elements, in registers.

A load of what was stored in other pieces waits until these have reached the cache. So the elements
at the threads' own place are loaded and stored once, and those before and behind them one by one,
which is also how they are loaded again by the gang that has its place there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.builtins.reference import is_narrow, nothing_added
from kernelcore.codegen.analysis.uniformity import Strides, stride_of
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.reduction.accumulation import JoinedAdditions
from kernelcore.codegen.reduction.element_add import summed
from kernelcore.codegen.simd.interleaved import shuffled
from kernelcore.ir.core import Atom, Eqn, Func, Var
from kernelcore.ir.op import REPEATABLE, AddForm, OpKind
from kernelcore.ir.walk import array_type, element_indices, walk_regions
from kernelcore.language.types import Scalar
from kernelcore.passes.access.accumulation_plan import form_of
from kernelcore.passes.access.index_offsets import Position, definitions, position_of

# These touch no array to which threads add in SHARED form.
_UNRELATED = REPEATABLE | {OpKind.LOAD}
# From the first addition to the last.
MAX_SPREAD = 4


@dataclass(frozen=True, slots=True)
class _Row:
    """Elements of an array that differ in the last index; all threads of a gang share the others.

    ``base`` is what the last index is near to.
    """

    array: Atom
    others: Position
    base: Atom

    def may_meet(self, row: _Row) -> bool:
        """Whether ``row`` is another one that may have the same elements."""
        if row == self or row.array != self.array:
            return False
        pairs = zip(self.others, row.others, strict=True)
        return not any(a[0] == b[0] and a[1] != b[1] for a, b in pairs)


def joined_additions(func: Func, strides: Strides, gang: int) -> Mapping[Eqn, JoinedAdditions]:
    """The additions of gangs of ``gang`` threads that may be made together, by each of them.

    ``strides`` says by how much scalars grow from thread to thread
    (``codegen/analysis/uniformity.py``).
    """
    if gang == 1:
        return {}
    # Not beyond a gang, so that what is stored is an element that some lane adds to.
    spread, defined = min(gang, MAX_SPREAD), definitions(func)
    found: dict[Eqn, JoinedAdditions] = {}
    for region in walk_regions(func.body):
        # What lies in one row may be added together as long as nothing else is added there.
        rows: dict[_Row, list[tuple[Eqn, int]]] = {}
        for eqn in region.eqns:
            if _is_unrelated(eqn):
                continue
            place = _place(eqn, defined, strides)
            row = None if place is None else _Row(eqn.inputs[0], place[:-1], place[-1][0])
            for other in [r for r in rows if row is None or r.may_meet(row)]:
                found.update(_together(other, rows.pop(other), spread))
            if row is not None and place is not None:
                rows.setdefault(row, []).append((eqn, place[-1][1]))
        for row, added in rows.items():
            found.update(_together(row, added, spread))
    return found


def _is_unrelated(eqn: Eqn) -> bool:
    is_owned = eqn.op.kind is OpKind.ATOMIC_ADD and form_of(eqn) is AddForm.OWNED
    return is_owned or eqn.op.kind in _UNRELATED


def joined(e: Emitter, eqn: Eqn) -> JoinedAdditions | None:
    """The additions with which that of ``eqn`` is made, if all lanes add to a packed array."""
    assert e.accumulation is not None
    found = e.accumulation.neighbours.get(eqn)
    if found is None or e.mask is not None:
        return None
    is_packed = e.array(eqn.inputs[0]).strides[-1] == str(array_type(eqn).dtype.size_bytes)
    return found if is_packed else None


def add_to_neighbours(e: Emitter, found: JoinedAdditions) -> None:
    """Make the additions, all lanes being active, as if no other thread added to the array."""
    array, dtype, lanes = found.eqns[0].inputs[0], array_type(found.eqns[0]).dtype, range(e.gang)
    with e.at(1):
        start = memory.address(e, e.array(array), found.indices)
        start = memory.address_at(e, start, found.origin * dtype.size_bytes)
    values = [e.value_at(eqn.inputs[-1], e.gang) for eqn in found.eqns]
    added = list(zip(values, found.offsets, strict=True))
    behind, before = max(0, *found.offsets), min(0, *found.offsets)
    total = _own_elements(e, dtype, start, behind)
    ty = LLVM_TYPES[dtype.name]
    nothing = f"splat ({ty} {literal(dtype, nothing_added(dtype))})"
    with e.at(e.gang):
        for value, offset in added:
            order = [k - offset if k - offset in lanes else e.gang for k in lanes]
            total = summed(e, dtype, total, shuffled(e, ty, value, e.gang, order, nothing))
        memory.store(e, dtype, total, start)
    with e.at(1):
        for at in (*range(before, 0), *range(e.gang, e.gang + behind)):
            address = memory.address_at(e, start, at * dtype.size_bytes)
            one = _load_alone(e, dtype, address)
            for value, offset in added:
                if at - offset in lanes:
                    lane = e.op(f"extractelement <{e.gang} x {ty}> {value}, i64 {at - offset}")
                    one = summed(e, dtype, one, lane)
            memory.store(e, dtype, one, address)


def _own_elements(e: Emitter, dtype: Scalar, start: str, behind: int) -> str:
    """The elements from ``start`` on; the first ``behind`` are those behind the gang before."""
    ty, size_bytes = LLVM_TYPES[dtype.name], dtype.size_bytes
    with e.at(e.gang):
        found = memory.load(e, dtype, memory.address_at(e, start, behind * size_bytes))
    if behind:
        order = [*[-1] * behind, *range(e.gang - behind)]
        found = shuffled(e, ty, found, e.gang, order)
    for k in range(behind):
        one = _load_alone(e, dtype, memory.address_at(e, start, k * size_bytes))
        found = e.op(f"insertelement <{e.gang} x {ty}> {found}, {ty} {one}, i64 {k}")
    return found


def _load_alone(e: Emitter, dtype: Scalar, address: str) -> str:
    """One element; LLVM may not load it together with those beside it."""
    align = f"align {dtype.size_bytes}"
    return e.op(f"load atomic {LLVM_TYPES[dtype.name]}, ptr {address} unordered, {align}")


def _place(eqn: Eqn, defined: Mapping[Var, Eqn], strides: Strides) -> Position | None:
    """Where ``eqn`` adds to adjacent elements of one row, if that is what it does."""
    if eqn.op.kind is not OpKind.ATOMIC_ADD or form_of(eqn) is not AddForm.SHARED:
        return None
    array = array_type(eqn)
    if array.components or is_narrow(array.dtype) or not array.ndim:
        return None
    place = position_of(eqn, defined)
    steps = [stride_of(strides, base) for base, _ in place]
    return place if steps == [*[0] * (array.ndim - 1), 1] else None


def _together(
    row: _Row, added: Sequence[tuple[Eqn, int]], spread: int
) -> Mapping[Eqn, JoinedAdditions]:
    """The additions to ``row``, by each of them; none where they are further apart, or equal."""
    eqns = tuple(eqn for eqn, _ in added)
    offsets = [offset for _, offset in added]
    low, high = min(offsets), max(offsets)
    if low == high or high - low > spread:
        return {}
    # Rows start at multiples of registers, and so do a gang's own elements.
    origin = 0 if low <= 0 <= high else (low + high) // 2
    near = tuple(offset - origin for offset in offsets)
    joined = JoinedAdditions(eqns, (*element_indices(eqns[0])[:-1], row.base), origin, near)
    return dict.fromkeys(eqns, joined)
