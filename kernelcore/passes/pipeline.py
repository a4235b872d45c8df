"""The order in which passes run."""

from __future__ import annotations

from kernelcore.base.config import config
from kernelcore.ir.core import Func
from kernelcore.passes.access.accumulation_plan import mark_owned, plan_accumulations
from kernelcore.passes.autodiff.gradient import expand_gradients
from kernelcore.passes.autodiff.rules import without_rules
from kernelcore.passes.bounds_checks import check_bounds
from kernelcore.passes.simplify.common_subexpressions import merge_equal
from kernelcore.passes.simplify.dead_code import dce
from kernelcore.passes.simplify.fold import simplify
from kernelcore.passes.simplify.inline import inline


def normalize(func: Func) -> Func:
    """The normal form for transforms: no calls, no dead code, index checks in debug mode.

    Raises:
        KernelGradError: The kernel asks for a gradient that does not exist.
    """
    plain = dce(simplify(expand_gradients(inline(func))))
    return check_bounds(plain) if config.checks_bounds else plain


def tidy(func: Func) -> Func:
    """``func``, a derived kernel whose arrays share no memory, normalized, with less to compute."""
    return dce(merge_equal(normalize(func)))


def optimize(func: Func) -> Func:
    """``func``, normalized, ready for code generation and for native launches."""
    return plan_accumulations(without_rules(func))


def standalone(func: Func) -> Func:
    """As ``optimize``, for exported code, whose callers make no partial sums."""
    return mark_owned(without_rules(func))
