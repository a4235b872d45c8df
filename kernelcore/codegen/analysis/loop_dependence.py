"""Loops whose iterations depend on each other through sums alone: they can be vectorised.

The sums are taken out of the body. The rest computes the terms of several iterations at once; the
terms are added in the order of iterations, so that sums keep their bits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from itertools import zip_longest

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.arithmetic import add, neg, sub
from kernelcore.builtins.reference import is_narrow, nothing_added
from kernelcore.codegen.analysis.component_groups import (
    ComponentGroups,
    component_groups,
    component_of,
)
from kernelcore.codegen.analysis.uniformity import Strides, iteration_strides
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import REPEATABLE, AddForm, OpKind
from kernelcore.ir.walk import atoms_in, first_array_at_address, used_atoms, walk_eqns
from kernelcore.language.types import Scalar, boolean
from kernelcore.passes.access.accumulation_plan import form_of

_WITHOUT_EFFECT = REPEATABLE | {OpKind.LOAD, OpKind.IF}


@dataclass(frozen=True, slots=True)
class VectorLoop:
    """A loop whose iterations can be lanes.

    Attributes:
        region: The body without its sums: its parameter is the index, it yields the terms.
        terms: Per value that the loop carries, the terms that an iteration adds, in order.
        negatives: Terms that are negatives, and the values that they negate.
        strides: By how much the values of ``region`` grow from iteration to iteration.
        loads: The component group of every load.
        additions: The component group of every addition to an element.
    """

    region: Region
    terms: tuple[tuple[Atom, ...], ...]
    negatives: Mapping[Atom, Atom]
    strides: Strides
    loads: ComponentGroups
    additions: ComponentGroups


class Dependence(Enum):
    """What keeps the iterations of a loop from being lanes."""

    STEP = "its step is known at run time only"
    EFFECT = "an iteration does more than to load, compute and add"
    MEETING = "two additions of one iteration may meet in one element"
    SEEN = "it loads from an array to which it adds"
    CARRIED = "an iteration needs what the one before it computed, which is not a plain sum"


def vector_loops(func: Func) -> Mapping[Eqn, VectorLoop]:
    """The loops of ``func``, which has an accumulation plan, whose iterations can be lanes."""
    if first_array_at_address(func) is not None:
        return {}
    found = loop_dependences(func).items()
    return {loop: body for loop, body in found if isinstance(body, VectorLoop)}


def loop_dependences(func: Func) -> Mapping[Eqn, VectorLoop | Dependence]:
    """Every loop over a range, as one whose iterations can be lanes or with what prevents it."""
    used = atoms_in(func.body)
    loops = [eqn for eqn in walk_eqns(func.body) if eqn.op.kind is OpKind.FOR]
    return {loop: _vector_loop(loop, used) for loop in loops}


def _vector_loop(loop: Eqn, used: Collection[Atom]) -> VectorLoop | Dependence:
    (body,), step = loop.regions, loop.inputs[2]
    if not isinstance(step, Const) or step.value == 0:
        return Dependence.STEP
    eqns = list(walk_eqns(body))
    additions = [eqn for eqn in eqns if eqn.op.kind not in _WITHOUT_EFFECT]
    together = component_groups(body, OpKind.ATOMIC_ADD)
    if not all(_is_plain_sum(eqn, used) for eqn in additions):
        return Dependence.EFFECT
    if not _are_apart(additions, together):
        return Dependence.MEETING
    if _are_seen(additions, eqns):
        return Dependence.SEEN
    found = _without_sums(body)
    if found is None:
        return Dependence.CARRIED
    inner, terms = found
    strides = iteration_strides(inner, int(step.value))
    negatives: dict[Atom, Atom] = {eqn.out: eqn.inputs[0] for eqn in inner.eqns if eqn.op is neg.op}
    return VectorLoop(
        inner, terms, negatives, strides, component_groups(inner, OpKind.LOAD), together
    )


def _is_plain_sum(eqn: Eqn, used: Collection[Atom]) -> bool:
    """Whether ``eqn`` adds to an element of which nobody wants the old value."""
    if eqn.op.kind is not OpKind.ATOMIC_ADD:
        return False
    if form_of(eqn) not in (AddForm.SHARED, AddForm.OWNED):
        return False
    return eqn.out not in used and _has_sums(eqn.inputs[-1])


def _has_sums(atom: Atom) -> bool:
    dtype = atom.type
    return isinstance(dtype, Scalar) and dtype != boolean and not is_narrow(dtype)


def _are_apart(additions: Sequence[Eqn], together: ComponentGroups) -> bool:
    """Whether no two additions of one iteration meet: each may be made for several iterations."""
    places: dict[Atom, tuple[Eqn, ...]] = {}
    for eqn in additions:
        unit = together[eqn]
        if places.setdefault(eqn.inputs[0], unit) is not unit:
            return False
        if len({component_of(part) for part in unit}) < len(unit):
            return False
    return True


def _are_seen(additions: Sequence[Eqn], eqns: Sequence[Eqn]) -> bool:
    added = {eqn.inputs[0] for eqn in additions}
    return any(eqn.op.kind is OpKind.LOAD and eqn.inputs[0] in added for eqn in eqns)


def _without_sums(body: Region) -> tuple[Region, tuple[tuple[Atom, ...], ...]] | None:
    """``body`` without the sums that it carries, and their terms; None if it carries more."""
    index, *carried = body.params
    taken = _Taken()
    terms: list[tuple[Atom, ...]] = []
    for param, result in zip(carried, body.yields, strict=True):
        found = taken.follow(body, param) if _has_sums(param) else None
        if found is None or found[0] is not result:
            return None
        terms.append(tuple(found[1]))
    inner = taken.rest(Region((index,), body.eqns, tuple(a for found in terms for a in found)))
    # What is used besides its sum is no sum.
    if atoms_in(inner) & {*carried, *taken.sums}:
        return None
    return inner, tuple(terms)


class _Taken:
    """The sums that are taken out of a loop body."""

    def __init__(self) -> None:
        self.sums: set[Var] = set()
        # What stands in the place of an addition, if anything does.
        self.instead: dict[Eqn, Eqn | None] = {}
        # Per branch the outputs that were sums, and those for their terms with what arms yield.
        self.slots: dict[Eqn, set[int]] = {}
        self.terms: dict[Eqn, list[tuple[Var, Atom, Atom]]] = {}

    def follow(self, region: Region, start: Var) -> tuple[Var, list[Atom]] | None:
        """The sum that ``region`` makes of ``start``, and its terms; None if it makes no sum."""
        current, found = start, list[Atom]()
        for eqn in region.eqns:
            if current in used_atoms(eqn):
                step = self.branch if eqn.op.kind is OpKind.IF else self.addition
                part = step(eqn, current)
                if part is None:
                    return None
                current, terms = part
                self.sums.add(current)
                found += terms
        return current, found

    def addition(self, eqn: Eqn, current: Var) -> tuple[Var, list[Atom]] | None:
        """The sum that ``eqn`` makes of ``current``, and its term."""
        if eqn.op is add.op:
            x, y = eqn.inputs
            self.instead[eqn] = None
            return eqn.out, [y if x is current else x]
        if eqn.op is sub.op and eqn.inputs[0] is current:
            term = Var(eqn.out.type)
            self.instead[eqn] = Eqn(neg.op, eqn.inputs[1:], (term,), loc=eqn.loc)
            return eqn.out, [term]
        return None

    def branch(self, eqn: Eqn, current: Var) -> tuple[Var, list[Atom]] | None:
        """The output of an ``if`` whose arms add to ``current``, and outputs for the terms."""
        arms = [self.follow(region, current) for region in eqn.regions]
        ends = [arm[0] for arm in arms if arm is not None]
        yields = zip(*(region.yields for region in eqn.regions), strict=True)
        slots = [at for at, pair in enumerate(yields) if list(pair) == ends]
        if len(slots) != 1:
            return None
        assert isinstance(current.type, Scalar)
        nothing = Const(current.type, nothing_added(current.type))
        then, orelse = (arm[1] for arm in arms if arm is not None)
        new = [(Var(current.type), x, y) for x, y in zip_longest(then, orelse, fillvalue=nothing)]
        self.slots.setdefault(eqn, set()).update(slots)
        self.terms.setdefault(eqn, []).extend(new)
        return eqn.outputs[slots[0]], [out for out, _, _ in new]

    def rest(self, region: Region) -> Region:
        """``region`` without the sums."""
        eqns = (self.rest_of(eqn) for eqn in region.eqns)
        return Region(region.params, tuple(e for e in eqns if e is not None), region.yields)

    def rest_of(self, eqn: Eqn) -> Eqn | None:
        if eqn in self.instead:
            return self.instead[eqn]
        if not eqn.regions:
            return eqn
        new = self.terms.get(eqn, [])
        kept = [at for at in range(len(eqn.outputs)) if at not in self.slots.get(eqn, ())]
        regions: list[Region] = []
        for arm, region in enumerate(eqn.regions):
            yields = (*(region.yields[at] for at in kept), *(term[1 + arm] for term in new))
            regions.append(self.rest(Region(region.params, region.eqns, yields)))
        outputs = (*(eqn.outputs[at] for at in kept), *(out for out, _, _ in new))
        return replace(eqn, outputs=outputs, regions=tuple(regions))
