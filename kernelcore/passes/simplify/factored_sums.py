"""What all terms of a sum are multiplied with, or divided by, is applied to the sum.

    for k in range(n):                        for k in range(n):
        s += c * x[i, k]                          t += x[i, k]
        a[i, k] += c * x[i, k]      becomes       a[i, k] += c * x[i, k]
                                              s += c * t if n > 0 else 0

Loops of adjoints add up the cotangents of what all iterations use. Many of these sums are then one
sum, or need less in each iteration, and none waits for ``c``. Only loops that run in any order are
changed: their sums are rounded in an order of the compiler's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.builtins.arithmetic import add, div, mul, neg
from kernelcore.builtins.logic import greater, where
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ANY_ORDER, Op, OpKind
from kernelcore.ir.walk import bound_vars, replace_body, rewrite, used_atoms
from kernelcore.language.types import Scalar, float32, float64
from kernelcore.passes.access.collected_values import CollectedValues

_ADD, _DIV, _MUL, _NEG = add.op, div.op, mul.op, neg.op
# A value of an iteration; a product that the loop does not compute is a pair.
_Core = Atom | tuple[Atom, Atom]
# Operations, first one first, and their other operands; a change of sign has none.
_Factors = tuple[tuple[Op, Atom | None], ...]
# Sums without a factor that makes them small may leave the range of narrower types.
_WIDE = (float32, float64)


@dataclass(frozen=True, slots=True)
class _Term:
    """What one Eqn of a loop adds to a sum.

    Attributes:
        slot: Which of the values that the loop carries the sum is.
        addition: The Eqn.
        before: The sum before it.
        core: The term without its factors.
        factors: What makes the term of the core.
    """

    slot: int
    addition: Eqn
    before: Atom
    core: _Core
    factors: _Factors

    @property
    def is_scaled(self) -> bool:
        """Whether a factor is more than a change of sign."""
        return any(other is not None for _, other in self.factors)


def factor_sums(func: Func) -> Func:
    """``func``, a derived kernel, with what the sums of its loops have in common taken out."""
    if func.keeps_bits:
        return func
    env: dict[Var, Atom] = {}
    changed = False

    def change(eqn: Eqn) -> Eqn | Region:
        if eqn.op.kind is not OpKind.FOR or ANY_ORDER not in eqn.attrs:
            return eqn
        nonlocal changed
        (body,) = eqn.regions
        found = _Loop(replace(eqn, regions=(rewrite(body, change, env),))).factored()
        changed |= len(found.eqns) > 1
        return found

    body = rewrite(func.body, change, env)
    return replace_body(func, body) if changed else func


class _Loop:
    """A loop whose iterations run in any order."""

    def __init__(self, loop: Eqn) -> None:
        self.loop = loop
        (self.body,) = loop.regions
        self.inside = bound_vars(self.body)
        self.makers = {out: eqn for eqn in self.body.eqns for out in eqn.outputs}
        self.products = {frozenset(eqn.inputs): eqn.out for eqn in self.body.eqns if eqn.op is _MUL}
        self.users: dict[Atom, Eqn] = {}
        self.uses = Counter[Atom](self.body.yields)
        for eqn in self.body.eqns:
            for atom in used_atoms(eqn):
                self.users[atom] = eqn
                self.uses[atom] += 1

    def factored(self) -> Region:
        """The loop, and what takes the factors into account behind it."""
        terms = self._gaining()
        if not terms:
            return Region((), (self.loop,), self.loop.outputs)
        sums = {t.core: Var(t.before.type, "sum") for t in terms}
        totals = {core: Var(v.type, "sum") for core, v in sums.items()}
        body = self._body(terms, sums)
        left_out = {term.slot for term in terms}
        count = len(self.loop.outputs)
        kept = [i for i in range(count) if i not in left_out]
        params = (body.params[0], *(body.params[1 + i] for i in kept), *sums.values())
        yields = (*(body.yields[i] for i in kept), *body.yields[count:])
        entries = self.loop.inputs[3:]
        zeros = [_constant(v, 0.0) for v in sums.values()]
        inputs = (*self.loop.inputs[:3], *(entries[i] for i in kept), *zeros)
        outputs = (*(self.loop.outputs[i] for i in kept), *totals.values())
        region = Region(params, body.eqns, yields)
        loop = replace(self.loop, inputs=inputs, outputs=outputs, regions=(region,))
        results: list[Atom] = [
            entries[i] if i in left_out else v for i, v in enumerate(self.loop.outputs)
        ]
        builder = Builder()
        builder.loc = self.loop.loc
        builder.append(loop)
        for term in terms:
            value = self._with_factors(builder, totals[term.core], term)
            results[term.slot] = builder.emit(_ADD, results[term.slot], value)
        return Region((), tuple(builder.eqns), tuple(results))

    def _gaining(self) -> list[_Term]:
        """The terms of sums that are replaced: as many sums or fewer, of simpler terms."""
        slots = [self._terms(slot) for slot in range(len(self.loop.outputs))]
        slots = [terms for terms in slots if len({t.core for t in terms}) == 1]
        count = Counter(terms[0].core for terms in slots)
        scaled = {t.core for terms in slots for t in terms if t.is_scaled}
        return [t for terms in slots for t in terms if t.core in scaled or count[terms[0].core] > 1]

    def _terms(self, slot: int) -> list[_Term]:
        """What each iteration adds to a sum; none if that cannot be told."""
        value, result = self.body.params[1 + slot], self.body.yields[slot]
        operation = CollectedValues(self.body).operation(value, result)
        if value.type not in _WIDE or operation is not _ADD:
            return []
        found: list[_Term] = []
        while value is not result:
            eqn = self.users[value]
            if eqn.op is not _ADD:
                return []
            (term,) = (a for a in eqn.inputs if a is not value)
            core, factors = self._core(term)
            if not isinstance(core, tuple) and core not in self.inside:
                return []
            found.append(_Term(slot, eqn, value, core, factors))
            value = eqn.out
        return found

    def _core(self, term: Atom) -> tuple[_Core, _Factors]:
        """``term`` without its factors, and these."""
        eqn = self._maker(term)
        if eqn is None:
            return term, ()
        if eqn.op is _NEG:
            core, factors = self._core(eqn.inputs[0])
            return core, (*factors, (_NEG, None))
        if eqn.op not in (_MUL, _DIV):
            return term, ()
        a, b = eqn.inputs
        if b not in self.inside:
            core, factors = self._core(a)
            return core, (*factors, (eqn.op, b))
        if eqn.op is _MUL and a not in self.inside:
            core, factors = self._core(b)
            return core, (*factors, (_MUL, a))
        return self._of_product(term, a, b) if eqn.op is _MUL else (term, ())

    def _of_product(self, term: Atom, a: Atom, b: Atom) -> tuple[_Core, _Factors]:
        """The core and the factors of ``term``, a product of what differs between iterations.

        Of two quotients with one divisor, one is put in place of its numerator. Without the other
        one the product might be out of range where the term is not.
        """
        (a, is_negative), (b, is_other_negative) = self._unsigned(a), self._unsigned(b)
        signs = ((_NEG, None),) if is_negative != is_other_negative else ()
        one, other = self._maker(a), self._maker(b)
        if one is None or other is None or (one.op, other.op) != (_DIV, _DIV):
            return term, ()
        divisor = one.inputs[1]
        if divisor in self.inside or other.inputs[1] is not divisor:
            return term, ()
        for quotient, left in ((one, b), (other, a)):
            numerator = quotient.inputs[0]
            product = self.products.get(frozenset((numerator, left)))
            if product is not None and numerator in self.inside:
                return product, ((_DIV, divisor), *signs)
        for quotient, left in ((one, b), (other, a)):
            # What else uses the quotient needs it anyway.
            if self.uses[quotient.out] == 1:
                return (quotient.inputs[0], left), ((_DIV, divisor), *signs)
        return term, ()

    def _maker(self, atom: Atom) -> Eqn | None:
        """The Eqn of the body that computes ``atom``."""
        return self.makers.get(atom) if isinstance(atom, Var) else None

    def _unsigned(self, atom: Atom) -> tuple[Atom, bool]:
        """``atom`` before changes of its sign, and whether it has another one."""
        is_negative = False
        while (eqn := self._maker(atom)) is not None and eqn.op is _NEG:
            atom, is_negative = eqn.inputs[0], not is_negative
        return atom, is_negative

    def _body(self, terms: Sequence[_Term], sums: Mapping[_Core, Var]) -> Region:
        """The body without the additions of ``terms``; its last results are the ``sums``."""
        dropped = {term.addition: term for term in terms}
        known = {*self.body.params}
        builder = Builder()
        waiting: list[_Core] = []
        results: dict[_Core, Var] = {}
        for eqn in self.body.eqns:
            builder.loc = eqn.loc
            if eqn in dropped:
                waiting.append(dropped[eqn].core)
            else:
                builder.append(eqn)
                known.update(eqn.outputs)
            for core in [c for c in waiting if isinstance(c, tuple) or c in known]:
                waiting.remove(core)
                if core in results:
                    continue
                value = builder.emit(_MUL, *core) if isinstance(core, tuple) else core
                results[core] = builder.emit(_ADD, sums[core], value)
        last = [results[core] for core in sums]
        return Region(self.body.params, tuple(builder.eqns), (*self.body.yields, *last))

    def _with_factors(self, builder: Builder, total: Var, term: _Term) -> Atom:
        """The sum of the terms, from that of their cores."""
        start, trips, step = self.loop.inputs[:3]
        assert isinstance(start, Const)
        assert isinstance(step, Const)
        assert (start.value, step.value) == (0, 1)
        value: Atom = total
        for op, other in term.factors:
            if other is None:
                value = builder.emit(op, value)
                continue
            if not isinstance(trips, Const) or trips.value <= 0:
                # Without iterations a factor counts for nothing: it may be infinite, or divide by
                # zero, and so may its derivatives.
                assert isinstance(trips.type, Scalar)
                runs = builder.emit(greater.op, trips, zero(trips.type))
                other = builder.emit(where.op, runs, other, _constant(total, 1.0))
            value = builder.emit(op, value, other)
        return value


def _constant(like: Var, value: float) -> Const:
    assert isinstance(like.type, Scalar)
    return Const(like.type, value)
