"""Quotients whose divisor all iterations of a loop share: its cotangent is divided behind the loop.

    for k in range(n):          adjoint:  for k in range(n):
        y[k] = x[k] / total                   ct_x = ct_y[k] / total
                                              sum += ct_x * x[k]
                                          ct_total = -sum / total

The rule of the quotient itself gives ``ct_total += -(ct_y[k] / total) * (x[k] / total)``, a second
quotient per iteration. The other form is made by derivative rules of the IR: the loop divides by a
copy of the divisor, whose cotangent is the sum, and the copy is what divides it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from kernelcore.base.dataclass import replace
from kernelcore.builtins.arithmetic import div, mul, neg
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import Rules, rules_of
from kernelcore.ir.op import CUSTOM, LOOPS, OpKind
from kernelcore.ir.walk import bound_vars, replace_body, walk_paths
from kernelcore.language.types import Scalar
from kernelcore.passes.autodiff.rules import changed_calls


def with_shared_divisors(func: Func, active: Collection[Atom]) -> Func:
    """``func`` with rules at quotients whose divisor is ``active`` and shared."""
    quotients: set[Eqn] = set()
    copies: dict[Var, Var] = {}
    for eqn, path in walk_paths(func.body):
        if eqn.op is not div.op or any(around.op.kind is OpKind.CUSTOM for around, _ in path):
            continue
        divisor = eqn.inputs[1]
        loops = [around for around, _ in path if around.op.kind in LOOPS]
        if not loops or not isinstance(divisor, Var) or divisor not in active:
            continue
        if all(divisor not in bound_vars(region) for region in loops[-1].regions):
            quotients.add(eqn)
            copies.setdefault(divisor, Var(divisor.type, divisor.name))
    if not quotients:
        return func

    def copied(*values: Var) -> list[Eqn]:
        shared = [(v, copies[v]) for v in values if v in copies]
        return [
            Eqn(CUSTOM, (v,), (copy,), {"rules": _copy_rules(v.type)}, (Region((), (), (v,)),))
            for v, copy in shared
        ]

    def quotient(eqn: Eqn) -> Eqn:
        x, y = eqn.inputs
        assert isinstance(y, Var)
        made = replace(eqn, inputs=(x, copies[y]), outputs=(Var(eqn.out.type),))
        region = Region((), (made,), (made.out,))
        attrs = {"rules": _quotient_rules(eqn.out.type)}
        return Eqn(CUSTOM, made.inputs, eqn.outputs, attrs, (region,), eqn.loc)

    def changed(region: Region) -> Region:
        eqns = copied(*region.params)
        for eqn in region.eqns:
            if eqn in quotients:
                eqns.append(quotient(eqn))
            else:
                eqns.append(replace(eqn, regions=tuple(map(changed, eqn.regions))))
            eqns += copied(*eqn.outputs)
        return replace(region, eqns=tuple(eqns))

    return replace_body(func, changed(func.body))


def without_shared_divisors(func: Func) -> Func:
    """``func`` with plain quotients in the place of those with rules."""

    def change(eqn: Eqn) -> Eqn | Region:
        return eqn.regions[0] if rules_of(eqn).name in (_COPY, _QUOTIENT) else eqn

    return changed_calls(func, change)


# No functions of users have such names.
_COPY, _QUOTIENT = "copy of a divisor", "quotient by a copy"


@cache
def _copy_rules(dtype: Scalar) -> Rules:
    value, cotangent = Var(dtype), Var(dtype)
    builder = Builder()
    with builder.into([]) as eqns:
        result = builder.emit(neg.op, builder.emit(div.op, cotangent, value))
    body = Region((value, cotangent), tuple(eqns), (result,))
    return Rules(_COPY, (dtype,), adjoint=Func(_COPY, body))


@cache
def _quotient_rules(dtype: Scalar) -> Rules:
    x, divisor, cotangent = Var(dtype), Var(dtype), Var(dtype)
    builder = Builder()
    with builder.into([]) as eqns:
        of_x = builder.emit(div.op, cotangent, divisor)
        of_divisor = builder.emit(mul.op, of_x, x)
    body = Region((x, divisor, cotangent), tuple(eqns), (of_x, of_divisor))
    return Rules(_QUOTIENT, (dtype, dtype), adjoint=Func(_QUOTIENT, body))
