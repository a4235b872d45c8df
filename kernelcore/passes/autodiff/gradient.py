"""Gradients inside kernels: GRAD Eqns become the reverse sweep of what they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcore.base.dataclass import replace
from kernelcore.base.lazy import Deferred
from kernelcore.ir.core import Eqn, Func, Region
from kernelcore.ir.derivative_rules import instantiate, rules_of
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import replace_body, rewrite, walk_eqns
from kernelcore.passes.simplify.dead_code import dce
from kernelcore.passes.simplify.fold import simplify

# Few kernels ask for a gradient.
if TYPE_CHECKING:
    from kernelcore.passes.autodiff import vjp
else:
    vjp = Deferred("kernelcore.passes.autodiff.vjp")


def expand_gradients(func: Func) -> Func:
    """``func``, which has no calls, without GRAD; so are its rules.

    Raises:
        KernelGradError: What is differentiated has no derivative.
    """
    kinds = {e.op.kind for e in walk_eqns(func.body)}
    if not kinds & {OpKind.GRAD, OpKind.CUSTOM}:
        return func
    return replace_body(func, rewrite(func.body, _expanded))


def _expanded(eqn: Eqn) -> Eqn | Region:
    match eqn.op.kind:
        case OpKind.GRAD:
            callee: Func = eqn.attrs["callee"]
            sweep = vjp.pullback(dce(simplify(expand_gradients(callee))))
            return instantiate(sweep, [(a,) for a in eqn.inputs])
        case OpKind.CUSTOM:
            return replace(eqn, attrs={"rules": rules_of(eqn).map(expand_gradients)})
        case _:
            return eqn
