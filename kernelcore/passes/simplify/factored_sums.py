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
from kernelcore.ir.walk import bound_vars, replace_body, rewrite, substitute, used_atoms
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
        link: The Eqn.
        rest: The sum before it.
        core: The term without its factors.
        factors: What makes the term of the core.
    """

    slot: int
    link: Eqn
    rest: Atom
    core: _Core
    factors: _Factors


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
        terms = self._worth_it()
        if not terms:
            return Region((), (self.loop,), self.loop.outputs)
        sums = {t.core: Var(t.rest.type, "sum") for t in terms}
        totals = {core: Var(v.type, "sum") for core, v in sums.items()}
        body = self._body(terms, sums)
        changed = {term.slot for term in terms}
        kept = [
            i
            for i, (param, result) in enumerate(zip(body.params[1:], body.yields, strict=False))
            if i not in changed or param is not result
        ]
        params = (body.params[0], *(body.params[1 + i] for i in kept), *sums.values())
        count = len(self.loop.outputs)
        yields = (*(body.yields[i] for i in kept), *body.yields[count:])
        zeros = [_zero_of(v) for v in sums.values()]
        inputs = (*self.loop.inputs[:3], *(self.loop.inputs[3 + i] for i in kept), *zeros)
        outputs = (*(self.loop.outputs[i] for i in kept), *totals.values())
        region = Region(params, body.eqns, yields)
        loop = replace(self.loop, inputs=inputs, outputs=outputs, regions=(region,))
        results: list[Atom] = [
            v if i in kept else self.loop.inputs[3 + i] for i, v in enumerate(self.loop.outputs)
        ]
        builder = Builder()
        builder.loc = self.loop.loc
        builder.append(loop)
        for term in terms:
            value = self._with_factors(builder, totals[term.core], term)
            results[term.slot] = builder.emit(_ADD, results[term.slot], value)
        return Region((), tuple(builder.eqns), tuple(results))

    def _worth_it(self) -> list[_Term]:
        """The terms whose factors are taken out: some need less so, or several are one."""
        found = [term for slot in range(len(self.loop.outputs)) for term in self._terms(slot)]
        count = Counter(term.core for term in found)
        scaled = {t.core for t in found if any(other is not None for _, other in t.factors)}
        return [t for t in found if t.core in scaled or count[t.core] > 1]

    def _terms(self, slot: int) -> list[_Term]:
        """What iterations add to a sum, each time."""
        value, result = self.body.params[1 + slot], self.body.yields[slot]
        if (
            value.type not in _WIDE
            or CollectedValues(self.body).operation(value, result) is not _ADD
        ):
            return []
        found: list[_Term] = []
        while value is not result:
            eqn = self.users[value]
            if eqn.op is _ADD:
                (term,) = (a for a in eqn.inputs if a is not value)
                core, factors = self._core(term)
                if isinstance(core, tuple) or core in self.inside:
                    found.append(_Term(slot, eqn, value, core, factors))
            value = eqn.outputs[eqn.inputs.index(value) - 3 if eqn.regions else 0]
        return found

    def _core(self, term: Atom) -> tuple[_Core, _Factors]:
        """``term`` without its factors, and these."""
        eqn = self.makers.get(term) if isinstance(term, Var) else None
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
        return self._of_product(a, b) if eqn.op is _MUL else (term, ())

    def _of_product(self, a: Atom, b: Atom) -> tuple[_Core, _Factors]:
        """The core of a product of what differs between iterations, and its factors.

        A quotient is put in place of its numerator in one operand alone: two of them may be large
        where the quotients are not.
        """
        (a, is_negative), (b, is_other_negative) = self._unsigned(a), self._unsigned(b)
        signs = ((_NEG, None),) if is_negative != is_other_negative else ()
        choices: list[tuple[Atom, Atom, _Factors]] = []
        for one, other in ((a, b), (b, a)):
            eqn = self.makers.get(one) if isinstance(one, Var) else None
            if eqn is None or eqn.op is not _DIV:
                continue
            numerator, divisor = eqn.inputs
            if numerator in self.inside and divisor not in self.inside:
                place = 0 if self.uses[one] == 1 else len(choices)
                choices.insert(place, (numerator, other, ((_DIV, divisor),)))
        for one, other, factors in (*choices, (a, b, ())):
            product = self.products.get(frozenset((one, other)))
            if product is not None:
                return product, (*factors, *signs)
        # The quotient is computed anyway where anything else uses it: the first one may be alone.
        one, other, factors = (*choices, (a, b, ()))[0]
        return (one, other), (*factors, *signs)

    def _unsigned(self, atom: Atom) -> tuple[Atom, bool]:
        """``atom`` before changes of its sign, and whether it has another one."""
        is_negative = False
        while isinstance(atom, Var) and atom in self.makers and self.makers[atom].op is _NEG:
            atom, is_negative = self.makers[atom].inputs[0], not is_negative
        return atom, is_negative

    def _body(self, terms: Sequence[_Term], sums: Mapping[_Core, Var]) -> Region:
        """The body without the Eqns of ``terms``, and with the ``sums`` as its last results."""
        dropped = {term.link: term for term in terms}
        known = {*self.body.params}
        env: dict[Var, Atom] = {}
        builder = Builder()
        waiting: list[_Term] = []
        results: dict[_Core, Var] = {}
        for eqn in self.body.eqns:
            builder.loc = eqn.loc
            if eqn in dropped:
                env[eqn.out] = substitute(dropped[eqn].rest, env)
                waiting.append(dropped[eqn])
            else:
                inputs = tuple(substitute(a, env) for a in eqn.inputs)
                builder.append(replace(eqn, inputs=inputs))
                known.update(eqn.outputs)
            for term in [t for t in waiting if isinstance(t.core, tuple) or t.core in known]:
                waiting.remove(term)
                if term.core in results:
                    continue
                core = builder.emit(_MUL, *term.core) if isinstance(term.core, tuple) else term.core
                results[term.core] = builder.emit(_ADD, sums[term.core], core)
        yields = [substitute(a, env) for a in self.body.yields]
        last = [results[core] for core in sums]
        return Region(self.body.params, tuple(builder.eqns), (*yields, *last))

    def _with_factors(self, builder: Builder, total: Var, term: _Term) -> Atom:
        """The sum of the terms, from that of their cores."""
        value: Atom = total
        is_scaled = False
        for op, other in term.factors:
            value = builder.emit(op, value) if other is None else builder.emit(op, value, other)
            is_scaled |= other is not None
        trips = self.loop.inputs[1]
        if not is_scaled or (isinstance(trips, Const) and trips.value > 0):
            return value
        # Without iterations the factors count for nothing, and may be infinite.
        assert isinstance(trips.type, Scalar)
        runs = builder.emit(greater.op, trips, zero(trips.type))
        return builder.emit(where.op, runs, value, _zero_of(total))


def _zero_of(var: Var) -> Const:
    assert isinstance(var.type, Scalar)
    return zero(var.type)
