"""Values that the forward loop of an adjoint records because they take long to compute again.

    for ...:                            for ... (backwards):
        push(records, v)                    v = pop(records)
        weight = exp(-v * q)                weight = exp(-v * q)
        v += h * weight                     ct_h += ct_v * weight       # and so on

Reverse mode records what it cannot compute again, here ``v``, and computes the rest. Where a
processor has a record to write and to read anyway, one more value in it takes less time than an
exponential or a quotient (docs/decisions/316). GPUs compute an exponential in less time than
they read one back, so their code stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.arithmetic import add, range_len, sub
from kernelcore.codegen.llvm.instruction_cost import count_of, slow_instructions
from kernelcore.ir.core import NO_ATTRS, Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import POP, PUSH, REPEATABLE, STACK, WRITES, OpKind
from kernelcore.ir.walk import replace_body, rewrite, used_atoms, walk_eqns, walk_paths
from kernelcore.language.types import Scalar, StackType
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.simplify.common_subexpressions import value_key
from kernelcore.passes.simplify.dead_code import dce

# Instructions from which on a value is recorded. A quotient or a square root counts as many.
COSTLY_INSTRUCTIONS = 12
# Records grow by at most this many times their size, or not at all: long loops keep many of them.
MOST_RECORDED = 3

_STACK_USES = (OpKind.PUSH, OpKind.POP)


@dataclass(frozen=True, eq=False, slots=True)
class _Place:
    """A region that pushes or pops, and the branch or loop that it belongs to."""

    region: Region
    around: Eqn


def with_costly_records(func: Func) -> Func:
    """``func``, an adjoint, with records of what it would take long to compute again."""
    pairs = _pairs(func)
    if not pairs:
        return func
    values = _Values(func)
    recorded = {again: first for pair in pairs for again, first in values.costly(*pair).items()}
    if not recorded:
        return func
    made = dce(_with_records(func, recorded))
    return replace_body(made, _when_used(made.body, values.again))


def _pairs(func: Func) -> list[tuple[_Place, _Place]]:
    """Where values are pushed, and where these are popped; outer regions come first."""
    places: dict[Eqn, _Place] = {}
    for eqn, path in walk_paths(func.body):
        if eqn.op.kind in _STACK_USES and path:
            around, number = path[-1]
            places[eqn] = _Place(around.regions[number], around)
    found: dict[tuple[Region, Region], tuple[_Place, _Place]] = {}
    for push, pop in _stack_uses(func):
        if push in places and pop in places:
            pair = places[push], places[pop]
            found.setdefault((pair[0].region, pair[1].region), pair)
    return list(found.values())


def _stack_uses(func: Func) -> list[tuple[Eqn, Eqn]]:
    """The PUSH and the POP of every stack that has one of each."""
    uses: dict[Atom, list[Eqn]] = {}
    for eqn in walk_eqns(func.body):
        if eqn.op.kind in _STACK_USES:
            uses.setdefault(eqn.inputs[0], []).append(eqn)
    pairs = ((found[0], found[-1]) for found in uses.values() if len(found) == len(_STACK_USES))
    return [pair for pair in pairs if tuple(eqn.op.kind for eqn in pair) == _STACK_USES]


class _Values:
    """What the regions of ``func`` that pop compute as those do that push.

    Attributes:
        again: The values that they compute again.
    """

    def __init__(self, func: Func) -> None:
        self._accesses = AccessMap(func)
        self._maker = {out: eqn for eqn in walk_eqns(func.body) for out in eqn.outputs}
        self._popped = {pop.out: push.inputs[1] for push, pop in _stack_uses(func)}
        # By value of a region that pops: the first one that is equal.
        self._same: dict[Atom, Atom] = {}
        self.again: set[Var] = set()

    def costly(self, push: _Place, pop: _Place) -> dict[Var, Var]:
        """By value in ``pop`` that takes long to compute: what it equals in ``push``.

        Pairs around these come before: what is equal in them is noted.
        """
        pushed_by_key = {self._key(e): e.out for e in push.region.eqns if self._is_repeatable(e)}
        index_by_key = self._index_by_key(push.around, pop.around)
        again: dict[Var, Eqn] = {}
        equal: dict[Var, Var] = {}
        for eqn in pop.region.eqns:
            if eqn.op.kind is OpKind.POP and eqn.out in self._popped:
                self._same[eqn.out] = self._first(self._popped[eqn.out])
            elif self._is_repeatable(eqn):
                key = self._key(eqn)
                if key in index_by_key:
                    self._same[eqn.out] = index_by_key[key]
                elif key in pushed_by_key:
                    again[eqn.out], equal[eqn.out] = eqn, pushed_by_key[key]
                    self._same[eqn.out] = self._first(pushed_by_key[key])
        others = (e for e in pop.region.eqns if not any(out in again for out in e.outputs))
        self.again.update(again)
        used = {*pop.region.yields, *(a for eqn in others for a in used_atoms(eqn))}
        found = {v: equal[v] for v in again if v in used and _takes_long(v, again, used)}
        popped = (eqn.out for eqn in pop.region.eqns if eqn.op.kind is OpKind.POP)
        is_much = sum(map(_size, found)) > MOST_RECORDED * sum(map(_size, popped))
        return {} if is_much else found

    def _first(self, atom: Atom) -> Atom:
        return self._same.get(atom, atom)

    def _key(self, eqn: Eqn) -> Hashable:
        return value_key(eqn, [self._first(a) for a in eqn.inputs])

    def _is_repeatable(self, eqn: Eqn) -> bool:
        if eqn.op.kind is OpKind.LOAD:
            return not self._accesses.has(eqn.inputs[0], *WRITES)
        return eqn.op.kind in REPEATABLE

    def _index_by_key(self, push: Eqn, pop: Eqn) -> dict[Hashable, Atom]:
        """By key of a value in ``pop``: the index of ``push`` that it is.

        Indices that are equal themselves are noted as such.
        """
        if not self._runs_backwards(push, pop):
            return {}
        (index, *_), (number, *_) = push.regions[0].params, pop.regions[0].params
        start, _, step = push.inputs[:3]
        if not _is_number(step, 1) or index.type != number.type:
            return {}
        if _is_number(start, 0):
            self._same[number] = index
            return {}
        return {
            value_key(eqn, order): index
            for eqn in pop.regions[0].eqns
            if eqn.op is add.op
            for order in ((start, number), (number, start))
        }

    def _runs_backwards(self, push: Eqn, pop: Eqn) -> bool:
        """Whether ``pop`` counts the iterations of ``push`` from the last one down to 0."""
        if push.op.kind is not OpKind.FOR or pop.op.kind is not OpKind.FOR:
            return False
        bounds, (last, *end) = push.inputs[:3], pop.inputs[:3]
        if not all(_is_number(a, -1) for a in end):
            return False
        if isinstance(last, Const):
            numbers = [a.value for a in bounds if isinstance(a, Const)]
            return len(numbers) == 3 and len(range(*map(int, numbers))) == last.value + 1
        maker = self._maker.get(last)
        if maker is None or maker.op is not sub.op or not _is_number(maker.inputs[1], 1):
            return False
        trips = maker.inputs[0]
        start, stop, step = bounds
        if self._first(trips) == stop:
            return _is_number(start, 0) and _is_number(step, 1)
        length = self._maker.get(trips) if isinstance(trips, Var) else None
        if length is None or length.op is not range_len.op:
            return False
        return tuple(map(self._first, length.inputs)) == bounds


def _is_number(atom: Atom, value: int) -> bool:
    return isinstance(atom, Const) and atom.value == value


def _takes_long(value: Var, again: Mapping[Var, Eqn], used: Collection[Atom]) -> bool:
    """Whether ``value`` takes long to compute, without what is ``used`` anyway."""
    cost, made, missing = 0, set[Eqn](), [again[value]]
    while missing and cost < COSTLY_INSTRUCTIONS:
        eqn = missing.pop()
        if eqn not in made:
            made.add(eqn)
            cost += _cost(eqn)
            needed = (a for a in eqn.inputs if isinstance(a, Var) and a not in used)
            missing += [again[a] for a in needed if a in again]
    return cost >= COSTLY_INSTRUCTIONS


def _cost(eqn: Eqn) -> int:
    if eqn.op.kind is OpKind.PURE and slow_instructions(eqn):
        return COSTLY_INSTRUCTIONS
    return count_of(eqn)


def _size(var: Var) -> int:
    return _scalar(var).size_bytes


def _with_records(func: Func, recorded: Mapping[Var, Var]) -> Func:
    """``func``, which pops the values of ``recorded`` where it computed them again."""
    stacks = {again: Var(StackType(_scalar(again)), f"saved_{again.name}") for again in recorded}
    pushes: dict[Var, list[Eqn]] = {}
    for again, first in recorded.items():
        pushes.setdefault(first, []).append(Eqn(PUSH, (stacks[again], first), (), NO_ATTRS))

    def change(eqn: Eqn) -> Eqn | Region:
        if len(eqn.outputs) != 1:
            return eqn
        if eqn.out in stacks:
            eqn = Eqn(POP, (stacks[eqn.out],), eqn.outputs, NO_ATTRS, (), eqn.loc)
        return Region((), (eqn, *pushes[eqn.out]), eqn.outputs) if eqn.out in pushes else eqn

    made = [Eqn(STACK, (), (stack,), {"dtype": _scalar(var)}) for var, stack in stacks.items()]
    body = rewrite(func.body, change)
    return replace_body(func, Region(body.params, (*made, *body.eqns), body.yields))


def _when_used(region: Region, again: Collection[Var]) -> Region:
    """``region``, which computes the values ``again`` where they are used first.

    What was computed for a value that is recorded now may be used later, too, and would wait.
    """
    held: dict[Atom, Eqn] = {}
    eqns: list[Eqn] = []

    def release(atoms: Iterable[Atom]) -> None:
        needed, missing = set[Atom](), [*atoms]
        while missing:
            atom = missing.pop()
            if atom in held and atom not in needed:
                needed.add(atom)
                missing += held[atom].inputs
        if needed:
            eqns.extend([held.pop(v) for v in [*held] if v in needed])

    for eqn in region.eqns:
        if len(eqn.outputs) == 1 and eqn.out in again and eqn.op.kind is not OpKind.POP:
            held[eqn.out] = eqn
            continue
        release(used_atoms(eqn))
        inner = tuple(_when_used(r, again) for r in eqn.regions)
        eqns.append(replace(eqn, regions=inner) if inner else eqn)
    release(region.yields)
    return Region(region.params, tuple(eqns), region.yields)


def _scalar(var: Var) -> Scalar:
    assert isinstance(var.type, Scalar)
    return var.type
