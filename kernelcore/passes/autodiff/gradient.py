"""Gradients inside kernels: GRAD Eqns become the reverse sweep of what they call."""

from __future__ import annotations

from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import instantiate, rules_of
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import replace_body, substitute, walk_eqns
from kernelcore.passes.autodiff.vjp import pullback
from kernelcore.passes.simplify.dead_code import dce
from kernelcore.passes.simplify.fold import simplify


def expand_gradients(func: Func) -> Func:
    """``func``, which has no calls, without GRAD; so are its rules.

    Raises:
        KernelGradError: What is differentiated has no derivative.
    """
    kinds = {e.op.kind for e in walk_eqns(func.body)}
    if not kinds & {OpKind.GRAD, OpKind.CUSTOM}:
        return func
    return replace_body(func, _region(func.body, {}))


def _region(region: Region, env: dict[Var, Atom]) -> Region:
    eqns: list[Eqn] = []
    for eqn in region.eqns:
        inputs = tuple(substitute(a, env) for a in eqn.inputs)
        if eqn.op.kind is OpKind.GRAD:
            callee: Func = eqn.attrs["callee"]
            sweep = pullback(dce(simplify(expand_gradients(callee))))
            body = instantiate(sweep, [(a,) for a in inputs])
            eqns.extend(body.eqns)
            env.update(zip(eqn.outputs, body.yields, strict=True))
            continue
        attrs = eqn.attrs
        if eqn.op.kind is OpKind.CUSTOM:
            attrs = {"rules": rules_of(eqn).map(expand_gradients)}
        regions = tuple(_region(r, env) for r in eqn.regions)
        eqns.append(Eqn(eqn.op, inputs, eqn.outputs, attrs, regions, eqn.loc))
    return Region(region.params, tuple(eqns), tuple(substitute(a, env) for a in region.yields))
