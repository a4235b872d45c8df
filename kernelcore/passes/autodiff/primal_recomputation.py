"""Primal recomputation: values of the primal where the reverse sweep needs them.

The adjoint runs the primal first, so values outside of loops and branches are in scope; what the
primal has saved, such as the results of a loop, is replaced by loads. Inside, a value is recomputed
from available ones. Where that is impossible (carried by a loop, loaded from an array that the
kernel writes, result of a loop), the forward sweep pushes it on a stack of its own, and the reverse
sweep, which runs the iterations backwards, pops it.
"""

from __future__ import annotations

from collections.abc import Set

from kernelcore.base.dataclass import dataclass, field, replace
from kernelcore.builtins.arithmetic import add
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import NO_ATTRS, Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import LOAD, LOOPS, POP, PUSH, REPEATABLE, STACK, WRITES, OpKind
from kernelcore.ir.snippet import array_uses, has_effect, snippet_of
from kernelcore.ir.walk import bound_vars, captured_vars, clone_eqn, walk_eqns
from kernelcore.language.types import Scalar, StackType, int64
from kernelcore.passes.access.effects import AccessMap

CONTROL = LOOPS | {OpKind.IF, OpKind.CUSTOM}


@dataclass(slots=True)
class RegionState:
    """The reverse sweep of one region: where its code goes, and the primal values it has."""

    region: Region
    eqns: list[Eqn] = field(default_factory=list[Eqn])
    values: dict[Var, Atom] = field(default_factory=dict[Var, Atom])
    is_root: bool = False


class PrimalValues:
    """Gives primal values to the reverse sweep and, at the end, the matching forward sweep."""

    def __init__(self, func: Func, builder: Builder, saved: Set[Var] = frozenset()) -> None:
        self.func = func
        self.builder = builder
        self.accesses = AccessMap(func)
        # Per value that the primal saved: how to load it.
        self.saved = {
            store.inputs[-1]: Eqn(LOAD, store.inputs[:-1], (), NO_ATTRS, (), store.loc)
            for store in func.body.eqns
            if store.op.kind is OpKind.STORE and store.inputs[0] in saved
        }
        # Values outside of loops and branches that the adjoint has with the bits of the primal;
        # filled in program order, since a value has them if what it is made of has.
        self._exact: set[Var] = set()
        self.states: dict[Region, RegionState] = {}
        self.home: dict[Var, Region] = {}
        self.maker: dict[Var, Eqn] = {}
        self.counts: dict[Eqn, Var] = {}
        self.stacks: dict[Var, Var] = {}
        self._index(func.body)

    def _index(self, region: Region) -> None:
        self.home.update((v, region) for v in region.params)
        for eqn in region.eqns:
            for out in eqn.outputs:
                self.home[out] = region
                self.maker[out] = eqn
            if eqn.op.kind is OpKind.WHILE:
                self.counts[eqn] = Var(int64, "trips")
                self.home[self.counts[eqn]] = region
            for inner in eqn.regions:
                self._index(inner)

    def open(self, region: Region, *, is_root: bool = False) -> RegionState:
        """Start the reverse sweep of ``region``."""
        self.states[region] = RegionState(region, is_root=is_root)
        return self.states[region]

    def trips(self, eqn: Eqn) -> Atom:
        """How often the body of a primal ``while`` ran."""
        return self.value(self.counts[eqn])

    def value(self, atom: Atom) -> Atom:
        """The primal value ``atom`` in the reverse sweep."""
        if isinstance(atom, Const):
            return atom
        state = self.states[self.home[atom]]
        if state.is_root:
            return atom
        # A work list: chains of dependent values can exceed the recursion limit.
        missing = [atom]
        while missing:
            var = missing[-1]
            needed = [v for v in self._inputs(var) if not self._is_available(v)]
            if needed and not self._is_available(var):
                missing.extend(needed)
                continue
            missing.pop()
            if not self._is_available(var):
                home = self.states[self.home[var]]
                with self.builder.into(home.eqns):
                    self._make(var, home)
        return state.values[atom]

    def _is_available(self, var: Var) -> bool:
        state = self.states[self.home[var]]
        return state.is_root or var in state.values

    def _inputs(self, var: Var) -> list[Var]:
        """The scalar inputs of the recomputation of ``var``; none if it is popped from a stack."""
        eqn = self.maker.get(var)
        if eqn is None or not self.repeats(eqn):
            return []
        atoms = (*eqn.inputs, *captured_vars(eqn))
        return [a for a in atoms if isinstance(a, Var) and isinstance(a.type, Scalar)]

    def _make(self, var: Var, state: RegionState) -> None:
        """Recompute ``var`` from available inputs, or pop it."""
        eqn = self.maker.get(var)
        if eqn is None or not self.repeats(eqn):
            state.values[var] = self._recorded(var)
            return
        env: dict[Var, Atom] = {v: self._known(v) for v in self._inputs(var)}
        copy = clone_eqn(eqn, env)
        self.builder.append(copy)
        state.values.update(zip(eqn.outputs, copy.outputs, strict=True))

    def _known(self, var: Var) -> Atom:
        state = self.states[self.home[var]]
        return var if state.is_root else state.values[var]

    def repeats(self, eqn: Eqn) -> bool:
        """Whether running ``eqn`` again gives the same outputs."""
        if eqn.op.kind is OpKind.LOAD:
            return not self.accesses.has(eqn.inputs[0], *WRITES)
        if eqn.op.kind in (OpKind.IF, OpKind.CUSTOM):
            return all(self.repeats(e) for r in eqn.regions for e in r.eqns)
        if eqn.op.kind is OpKind.SNIPPET:
            return not has_effect(eqn) and not any(
                self.accesses.has(u.array, *WRITES) for u in array_uses(eqn)
            )
        return eqn.op.kind in REPEATABLE

    def _recorded(self, var: Var) -> Var:
        assert isinstance(var.type, Scalar)
        stack = self.stacks.setdefault(var, Var(StackType(var.type), f"saved_{var.name}"))
        return self.builder.emit(POP, stack, name=var.name)

    def forward(self) -> list[Eqn]:
        """The primal, recording what ``value`` was asked for; call it after the reverse sweep.

        Arrays that the primal never loads are left untouched.
        """
        stacks = [
            Eqn(STACK, (), (stack,), {"dtype": var.type}) for var, stack in self.stacks.items()
        ]
        return [*stacks, *self._region(self.func.body)]

    def _region(self, region: Region) -> list[Eqn]:
        eqns = [push for v in region.params for push in self._push(v)]
        for eqn in region.eqns:
            if self._is_dead_write(eqn):
                continue
            if self._is_saved(eqn):
                eqns.extend(replace(self.saved[v], outputs=(v,)) for v in eqn.outputs)
                self._exact.update(eqn.outputs)
                continue
            if self.saved and self._is_exact(eqn):
                self._exact.update(eqn.outputs)
            eqns.append(self._eqn(eqn))
            outputs = eqn.outputs
            if eqn in self.counts:
                outputs = (*outputs, self.counts[eqn])
            eqns.extend(push for v in outputs for push in self._push(v))
        return eqns

    def _is_saved(self, eqn: Eqn) -> bool:
        """Whether the results of ``eqn`` are saved, and nothing else of it is needed."""
        if not self.saved or not eqn.outputs or not all(v in self.saved for v in eqn.outputs):
            return False
        if eqn.op.kind is not OpKind.FOR:
            # It is outside of loops, where nothing is recorded.
            return True
        # What searches for an extremum compares with it what the adjoint computes: a sum that this
        # adds up again, in another order, would give other bits.
        scalars = [v for v in captured_vars(eqn) if isinstance(v.type, Scalar)]
        if not all(map(self._has_same_bits, (*eqn.inputs, *scalars))):
            return False
        inside = list(walk_eqns(eqn.regions[0]))
        made = {v for region in eqn.regions for v in bound_vars(region)}
        made |= {self.counts[inner] for inner in inside if inner in self.counts}
        return made.isdisjoint(self.stacks) and all(
            self.repeats(inner) or inner.op.kind in CONTROL or self._is_dead_write(inner)
            for inner in inside
        )

    def _is_exact(self, eqn: Eqn) -> bool:
        """Whether ``eqn``, run again by the adjoint, gives the bits that it gave the primal."""
        is_repeated = not eqn.regions and self.repeats(eqn)
        return is_repeated and all(map(self._has_same_bits, eqn.inputs))

    def _has_same_bits(self, atom: Atom) -> bool:
        return isinstance(atom, Const) or atom in self._exact or atom in self.func.params

    def _is_dead_write(self, eqn: Eqn) -> bool:
        if eqn.op.kind is OpKind.SNIPPET:
            written = [u.array for u in array_uses(eqn) if u.writes]
            return not eqn.outputs and not any(self.accesses.has(a, OpKind.LOAD) for a in written)
        # The result of an atomic is unused (check_races), so only loads observe its writes.
        return eqn.op.kind in WRITES and not self.accesses.has(eqn.inputs[0], OpKind.LOAD)

    def _push(self, var: Var) -> list[Eqn]:
        stack = self.stacks.get(var)
        return [] if stack is None else [Eqn(PUSH, (stack, var), (), NO_ATTRS)]

    def _eqn(self, eqn: Eqn) -> Eqn:
        if eqn.op.kind is OpKind.SNIPPET:
            return replace(eqn, attrs={"snippet": snippet_of(eqn).as_replay()})
        if not eqn.regions:
            return eqn
        regions = [
            eqn.regions[0]
            if eqn.op.kind is OpKind.WHILE and r is eqn.regions[0]
            else Region(r.params, tuple(self._region(r)), r.yields)
            for r in eqn.regions
        ]
        if eqn.op.kind is OpKind.WHILE:
            return self._counting(eqn, regions[0], regions[1])
        return Eqn(eqn.op, eqn.inputs, eqn.outputs, eqn.attrs, tuple(regions), eqn.loc)

    def _counting(self, eqn: Eqn, cond: Region, body: Region) -> Eqn:
        """The ``while`` with one more carried value: the number of iterations so far."""
        unused, before, after = (Var(int64, "trips") for _ in range(3))
        step = Eqn(add.op, (before, Const(int64, 1)), (after,))
        regions = (
            Region((*cond.params, unused), cond.eqns, cond.yields),
            Region((*body.params, before), (*body.eqns, step), (*body.yields, after)),
        )
        inputs = (*eqn.inputs, Const(int64, 0))
        outputs = (*eqn.outputs, self.counts[eqn])
        return Eqn(eqn.op, inputs, outputs, eqn.attrs, regions, eqn.loc)
