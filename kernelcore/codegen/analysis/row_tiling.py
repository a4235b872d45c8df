"""Row tiling (unroll and jam): one thread runs several rows of the grid and shares their loads.

The rows run each iteration of a loop together. Sums keep their bits: every element gets its
additions in the order in which it gets them row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from kernelcore.builtins import arithmetic
from kernelcore.builtins.arithmetic import add, sub
from kernelcore.builtins.logic import less_equal
from kernelcore.codegen.analysis.component_groups import whole_elements
from kernelcore.codegen.analysis.uniformity import Strides, row_strides, stride_of
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import IF, REPEATABLE, AddForm, OpKind
from kernelcore.ir.walk import (
    LEADING,
    atoms_in,
    bound_vars,
    clone_eqn,
    eqns_inside,
    replace_body,
    substitute,
    walk_eqns,
)
from kernelcore.language.types import ArrayType, boolean, int32
from kernelcore.passes.access.accumulation_plan import are_known, form_of, unloaded_values
from kernelcore.passes.access.effects import Access, AccessMap, disjoint, varies_with_loops

# A tile is one more body. Kernels of more equations take LLVM long enough without it.
MAX_EQNS_OF_TILES = 200
_WRITES = frozenset({OpKind.STORE, OpKind.ATOMIC_ADD})
_WITHOUT_EFFECT = REPEATABLE | {OpKind.LOAD}


def can_tile_rows(func: Func) -> bool:
    """Whether rows of the grid of ``func``, which has a plan, can be taken together."""
    if func.rank < 2:
        return False
    strides = row_strides(func)
    eqns = list(walk_eqns(func.body))
    if len(eqns) > MAX_EQNS_OF_TILES or not all(_goes_along(eqn, strides) for eqn in eqns):
        return False
    added = [e for e in eqns if e.op.kind is OpKind.ATOMIC_ADD]
    if not atoms_in(func.body).isdisjoint(e.out for e in added):
        return False
    forms = {form_of(e) for e in added}
    accesses = AccessMap(func)
    if not all(_is_apart(accesses, p) for p in func.params):
        return False
    shared = {e.inputs[0] for e in added if form_of(e) is AddForm.SHARED}
    return forms <= {AddForm.OWNED, AddForm.SHARED} and all(
        _keeps_order(accesses, array, strides) for array in shared
    )


def tile_rows(func: Func, rows: int, last: Var | None = None) -> Func:
    """``func`` with threads that run ``rows`` rows from their own on; ``can_tile_rows`` holds.

    ``last``, an int32 that becomes its last parameter, is the last row that there is: the code of
    later ones computes that row again, and stores nothing. ``may_run_fewer_rows`` holds then.
    """
    tiler = _RowTiler(func, rows, last)
    params = func.params if last is None else (*func.params, last)
    return replace_body(func, Region(params, tuple(tiler.region(func.body)), ()))


def fewest_rows(rows: int) -> int:
    """The fewest rows that a tile of ``rows`` runs faster than one by one (docs/decisions/294)."""
    return rows // 2 + 1


def may_run_fewer_rows(func: Func) -> bool:
    """Whether tiles may run fewer rows than they have code for (``tile_rows`` with a last row).

    Not where several stores write one element together: each would have a branch of its own.
    """
    return is_idempotent(func) and not whole_elements(func)


def is_idempotent(func: Func) -> bool:
    """Whether threads of ``func`` may run a second time with their stores masked off.

    Stores are outside of loops, and no loaded value decides an address, a branch or a trip count:
    the second run may load what the first one stored, under another name of the array too.
    """
    outside = frozenset(func.body.eqns)
    known = unloaded_values(func)

    def is_known(atoms: Sequence[Atom]) -> bool:
        return are_known(atoms, known)

    def is_harmless(eqn: Eqn) -> bool:
        match eqn.op.kind:
            case OpKind.LOAD:
                return is_known(eqn.inputs[1:])
            case OpKind.FOR:
                return is_known(eqn.inputs[:3])
            case OpKind.STORE:
                return eqn in outside
            case kind:
                return kind in REPEATABLE

    return all(map(is_harmless, walk_eqns(func.body)))


def _goes_along(eqn: Eqn, strides: Strides) -> bool:
    """Whether ``eqn`` of several rows can run in one place."""
    match eqn.op.kind:
        case OpKind.FOR:
            return all(stride_of(strides, a) == 0 for a in eqn.inputs[:3])
        case OpKind.IF:
            # What is inside is copied for a row as it is, and asks for the index of the first one.
            return not any(
                e.op.kind is OpKind.FOR or (e.op.kind is OpKind.TID and strides[e.out] != 0)
                for e in eqns_inside(eqn)
            )
        case kind:
            return kind in _WITHOUT_EFFECT or kind in _WRITES


def _is_apart(accesses: AccessMap, array: Var) -> bool:
    """Whether no row accesses elements of ``array`` that another row stores."""
    is_stored = accesses.has(array, OpKind.STORE)
    return not is_stored or accesses.func.rank - 2 in accesses.deciding_axes(array)


def _keeps_order(accesses: AccessMap, array: Atom, strides: Strides) -> bool:
    """Whether tiling keeps the order of the additions to every element of ``array``.

    It does if one row alone adds to the element, or if every thread adds to it once, in the same
    iteration as the threads of the other rows.
    """
    assert isinstance(array.type, ArrayType)
    if not array.type.dtype.is_float:
        return True
    rank, decided = accesses.func.rank, accesses.deciding_axes(array)
    if rank - 2 in decided:
        return True
    found = accesses.of(array)
    once = all(varies_with_loops(a) for a in found) and all(
        disjoint(a, b) for a, b in combinations(found, 2)
    )
    return rank - 1 in decided and once and all(_is_alike(a, strides) for a in found)


def _is_alike(access: Access, strides: Strides) -> bool:
    return all(stride_of(strides, i) == 0 for i in access.indices)


def _only_if(condition: Var, eqn: Eqn) -> Eqn:
    arms = (Region((), (eqn,)), Region((), ()))
    return Eqn(IF, (condition,), (), regions=arms, loc=eqn.loc)


class _RowTiler:
    """Copies equations that differ among the rows once per row, all others once."""

    def __init__(self, func: Func, rows: int, last: Var | None) -> None:
        self.axis, self.last = func.rank - 2, last
        self.strides = row_strides(func)
        # With a last row, for each row but the first whether it is at most that.
        self.is_row: list[Var] = []
        # Per row, what takes the place of the Vars of ``func``.
        self.rows: list[dict[Var, Atom]] = [{} for _ in range(rows)]

    def region(self, region: Region) -> list[Eqn]:
        return [copy for eqn in region.eqns for copy in self.eqn(eqn)]

    def eqn(self, eqn: Eqn) -> list[Eqn]:
        if eqn.op.kind is OpKind.FOR:
            return [self.loop(eqn)]
        if self.is_alike(eqn):
            return [self.once(eqn)]
        if eqn.op.kind is OpKind.TID:
            return self.indices(eqn)
        copies = [clone_eqn(eqn, row) for row in self.rows]
        if self.last is None or eqn.op.kind is not OpKind.STORE:
            return copies
        return [copies[0], *map(_only_if, self.is_row, copies[1:])]

    def is_alike(self, eqn: Eqn) -> bool:
        """Whether ``eqn`` is without effect, and the same in all rows."""
        made = {*eqn.outputs, *(v for region in eqn.regions for v in bound_vars(region))}
        return not any(e.op.kind in _WRITES for e in (eqn, *eqns_inside(eqn))) and all(
            self.strides[v] == 0 for v in made
        )

    def once(self, eqn: Eqn) -> Eqn:
        copy = clone_eqn(eqn, self.rows[0])
        for row in self.rows[1:]:
            row.update(zip(eqn.outputs, copy.outputs, strict=True))
        return copy

    def indices(self, eqn: Eqn) -> list[Eqn]:
        """The launch index of the first row, and from it those of the others."""
        first = self.once(eqn)
        eqns = [first]
        self.is_row = [Var(boolean) for _ in self.rows[1:]]
        # Places are compared from the first row on: indices behind the last row may wrap.
        left = Var(int32)
        if self.last is not None:
            eqns.append(Eqn(sub.op, (self.last, first.out), (left,), loc=eqn.loc))
        for at, row in enumerate(self.rows[1:], 1):
            place: Atom = Const(int32, at)
            if self.last is not None:
                both, place = (place, left), Var(int32)
                eqns.append(Eqn(less_equal.op, both, (self.is_row[at - 1],), loc=eqn.loc))
                eqns.append(Eqn(arithmetic.min.op, both, (place,), loc=eqn.loc))
            row[eqn.out] = index = Var(int32, eqn.out.name)
            eqns.append(Eqn(add.op, (first.out, place), (index,), loc=eqn.loc))
        return eqns

    def loop(self, eqn: Eqn) -> Eqn:
        """A loop that carries, for every row, what differs among them."""
        (body,) = eqn.regions
        skipped, leading = LEADING[OpKind.FOR]
        bounds = tuple(substitute(a, self.rows[0]) for a in eqn.inputs[:skipped])
        differs = [self.strides[p] != 0 for p in body.params[leading:]]
        init = self.spread(eqn.inputs[skipped:], differs)
        index = self.fresh(body.params[:leading], [False] * leading)
        params = index + self.fresh(body.params[leading:], differs)
        eqns = tuple(self.region(body))
        inner = Region(params, eqns, self.spread(body.yields, differs))
        outputs = self.fresh(eqn.outputs, differs)
        return Eqn(eqn.op, bounds + init, outputs, eqn.attrs, (inner,), eqn.loc)

    def spread(self, atoms: Sequence[Atom], differs: Sequence[bool]) -> tuple[Atom, ...]:
        """Every atom of the first row, of those that differ among rows one per row."""
        pairs = zip(atoms, differs, strict=True)
        return tuple(substitute(a, row) for a, d in pairs for row in self.rows[: None if d else 1])

    def fresh(self, old: Sequence[Var], differs: Sequence[bool]) -> tuple[Var, ...]:
        """New Vars for ``old``, as ``spread`` orders them."""
        found: list[Var] = []
        for var, differ in zip(old, differs, strict=True):
            new = [Var(var.type, var.name) for _ in (self.rows if differ else self.rows[:1])]
            for at, row in enumerate(self.rows):
                row[var] = new[at if differ else 0]
            found += new
        return tuple(found)
