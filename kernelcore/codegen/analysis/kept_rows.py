"""Kept rows: values that several loops along a row compute alike, for the first loop to keep.

    for k in range(n):                          for k in range(n):
        total += exp(x[i, k] - top)                 kept[i, k] = exp(x[i, k] - top)
                                                    total += kept[i, k]
    for k in range(n):                becomes   for k in range(n):
        y[i, k] = exp(x[i, k] - top) / total        y[i, k] = kept[i, k] / total

A gang has a row of ``kept`` for each of its threads (``simd/kept_rows.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.codegen.analysis.row_blocks import BlockedLoop, blocked_loops
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.llvm.instruction_cost import SLOW, instructions_of, slow_instructions
from kernelcore.ir.core import NO_ATTRS, Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import LOAD, REPEATABLE, STORE, TID, WRITES, OpKind
from kernelcore.ir.walk import eqns_inside, rewrite, used_atoms, walk_eqns
from kernelcore.language.types import ArrayType, Scalar, float32, float64, int32
from kernelcore.passes.access.final_elements import ArrayAxis, range_of
from kernelcore.passes.access.index_offsets import definitions
from kernelcore.passes.simplify.common_subexpressions import value_key
from kernelcore.passes.simplify.dead_code import dce

# A value of fewer instructions is computed again: a row that is stored and loaded takes the place
# of others in the caches (docs/decisions/257).
LEAST_INSTRUCTIONS = 24
# The same where only one thread at a time has a row (docs/decisions/258).
LEAST_INSTRUCTIONS_OF_ONE = 10


@dataclass(frozen=True, slots=True)
class KeptRows:
    """A kernel that keeps values of rows.

    Attributes:
        func: The kernel, with ``rows`` as further parameters.
        rows: Arrays that have the axes of the launch, and that of the row.
        keeping: The loops of the kernel that store a value.
        taking: Those that load one.
        extent: How long a row is.
        apart: Pairs of arrays, one that is written while a value of the other one is kept, which
            must share no memory.
    """

    func: Func
    rows: tuple[Var, ...]
    keeping: frozenset[Eqn]
    taking: frozenset[Eqn]
    extent: ArrayAxis
    apart: tuple[tuple[Var, Var], ...]


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of one loop: its equation, and all equations of the body that it takes."""

    loop: Eqn
    eqn: Eqn
    needed: frozenset[Eqn]

    def is_worth(self, least: int) -> bool:
        """Whether a row can hold it, and it is at least ``least`` instructions."""
        if self.eqn.out.type not in (float32, float64):
            return False
        pure = [e for e in self.needed if e.op.kind is OpKind.PURE]
        # Here a quotient or a root counts as SLOW instructions, not as so many more.
        cost = sum(len(instructions_of(e)) + (SLOW - 1) * slow_instructions(e) for e in pure)
        return cost >= least


def kept_rows(func: Func, least: int = LEAST_INSTRUCTIONS) -> KeptRows | None:
    """``func`` that keeps values along the first extent where that pays; None if none does.

    Values of at least ``least`` instructions pay for their memory.
    """
    blocked, defined = blocked_loops(func, lane_strides(func)), definitions(func)
    by_extent: dict[ArrayAxis, list[Eqn]] = {}
    for loop in func.body.eqns:
        if loop not in blocked or blocked[loop].by_rows is None:
            continue
        extent = range_of(loop, defined)
        if isinstance(extent, ArrayAxis):
            by_extent.setdefault(extent, []).append(loop)
    written = {e.inputs[0] for e in walk_eqns(func.body) if e.op.kind in WRITES}
    for extent, loops in by_extent.items():
        shared = _shared_values(loops, written, least)
        if shared:
            keeping = frozenset(value.loop for value in shared.values())
            taking = frozenset(use.loop for use in shared)
            apart = tuple(dict.fromkeys(_apart(func, shared, blocked)))
            return KeptRows(*_rewritten(func, shared), keeping, taking, extent, apart)
    return None


def _shared_values(
    loops: Sequence[Eqn], written: Collection[Atom], least: int
) -> dict[_Value, _Value]:
    """The values of later ``loops`` that are kept, each with the value that an earlier one has."""
    numbers: dict[Hashable, int] = {}
    first: dict[int, _Value] = {}
    found: dict[_Value, _Value] = {}
    for loop in loops:
        values, (body,) = _values(loop, written, numbers), loop.regions
        kept = {v.eqn for number, v in values.items() if number in first and v.is_worth(least)}
        used = {a for e in body.eqns if e not in kept for a in used_atoms(e)}
        for number, value in values.items():
            if value.eqn in kept and value.eqn.out in used:
                found[value] = first[number]
            first.setdefault(number, value)
    return found


def _values(
    loop: Eqn, written: Collection[Atom], numbers: dict[Hashable, int]
) -> dict[int, _Value]:
    """The values that ``loop`` computes of its index and what is fixed, by number.

    Equal values of loops have one number in ``numbers``.
    """
    (body,) = loop.regions
    index, *carried = body.params
    names: dict[Atom, Hashable] = {index: "index"}
    unknown, found = set[Atom](carried), dict[int, _Value]()
    needed: dict[Atom, frozenset[Eqn]] = {}
    for eqn in body.eqns:
        is_fixed = eqn.op.kind in REPEATABLE
        is_fixed = is_fixed or (eqn.op.kind is OpKind.LOAD and eqn.inputs[0] not in written)
        if not is_fixed or not unknown.isdisjoint(eqn.inputs):
            unknown.update(eqn.outputs)
            continue
        key = value_key(eqn, tuple(names.get(a, a) for a in eqn.inputs))
        number = names[eqn.out] = numbers.setdefault(key, len(numbers))
        parts = (needed.get(a, frozenset()) for a in eqn.inputs)
        needed[eqn.out] = frozenset({eqn}).union(*parts)
        found[number] = _Value(loop, eqn, needed[eqn.out])
    return found


def _apart(
    func: Func, shared: Mapping[_Value, _Value], blocked: Mapping[Eqn, BlockedLoop]
) -> Iterator[tuple[Var, Var]]:
    """Each array that is written from the first loop to the last, with each that values load."""
    places = {eqn: at for at, eqn in enumerate(func.body.eqns)}
    begin = min(places[value.loop] for value in shared.values())
    end = max(places[use.loop] for use in shared)
    loads = (e for use in shared for e in use.loop.regions[0].eqns if e in use.needed)
    loaded = dict.fromkeys(e.inputs[0] for e in loads if e.op.kind is OpKind.LOAD)
    for eqn in func.body.eqns[begin : end + 1]:
        # The last loop asks for these itself: it writes an element of its row that it has loaded.
        sure = (*blocked[eqn].apart, *blocked[eqn].equal) if places[eqn] == end else ()
        for inner in (eqn, *eqns_inside(eqn)):
            if inner.op.kind not in WRITES:
                continue
            for array in loaded:
                pair = inner.inputs[0], array
                assert isinstance(pair[0], Var)
                assert isinstance(pair[1], Var)
                if pair not in sure:
                    yield pair[0], pair[1]


def _rewritten(func: Func, shared: Mapping[_Value, _Value]) -> tuple[Func, tuple[Var, ...]]:
    """``func`` that keeps the values of ``shared``, and the arrays for them."""
    threads = [Eqn(TID, (), (Var(int32, "i"),), {"axis": axis}) for axis in range(func.rank)]
    rows: dict[Var, Var] = {}
    for value in shared.values():
        dtype = value.eqn.out.type
        assert isinstance(dtype, Scalar)
        rows.setdefault(value.eqn.out, Var(ArrayType(dtype, func.rank + 1), "kept"))
    # Array and indices of every value.
    places: dict[Var, tuple[Var, ...]] = {}
    for use, value in shared.items():
        for one in (use, value):
            index = one.loop.regions[0].params[0]
            places[one.eqn.out] = (rows[value.eqn.out], *(e.out for e in threads), index)

    def change(eqn: Eqn) -> Eqn | Region:
        out = eqn.outputs[0] if eqn.outputs else None
        if out not in places:
            return eqn
        if out not in rows:
            return Eqn(LOAD, places[out], eqn.outputs, NO_ATTRS, (), eqn.loc)
        store = Eqn(STORE, (*places[out], out), (), NO_ATTRS, (), eqn.loc)
        return Region((), (eqn, store), (out,))

    body = rewrite(func.body, change)
    arrays = tuple(rows.values())
    body = Region((*body.params, *arrays), (*threads, *body.eqns), body.yields)
    locs = (*func.param_locs, *(None for _ in arrays))
    return dce(replace(func, body=body, param_locs=locs)), arrays
