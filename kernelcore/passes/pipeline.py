"""The order in which passes run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcore.base.config import config
from kernelcore.base.lazy import Deferred
from kernelcore.ir.core import Func
from kernelcore.passes.access.accumulation_plan import mark_owned, plan_accumulations
from kernelcore.passes.autodiff.gradient import expand_gradients
from kernelcore.passes.autodiff.rules import without_rules
from kernelcore.passes.simplify.common_subexpressions import merge_equal
from kernelcore.passes.simplify.dead_code import dce, without_checks
from kernelcore.passes.simplify.fold import simplify
from kernelcore.passes.simplify.inline import inline
from kernelcore.passes.simplify.loop_fusion import fuse_searches

# Few programs ask for checks.
if TYPE_CHECKING:
    from kernelcore.passes import bounds_checks, finite_checks
else:
    bounds_checks = Deferred("kernelcore.passes.bounds_checks")
    finite_checks = Deferred("kernelcore.passes.finite_checks")


def normalize(func: Func) -> Func:
    """The normal form for transforms: no calls, no dead code, the checks that settings ask for.

    Raises:
        KernelGradError: The kernel asks for a gradient that does not exist.
    """
    plain = simplify(expand_gradients(without_checks(inline(func))))
    # An index is checked even if nothing needs what is loaded there.
    return _with_finite_checks(dce(_with_bounds_checks(plain)))


def with_checks(func: Func) -> Func:
    """``func`` with the checks that settings ask for, and no others."""
    return _with_finite_checks(_with_bounds_checks(without_checks(func)))


def _with_bounds_checks(func: Func) -> Func:
    return bounds_checks.check_bounds(func) if config.checks_bounds else func


def _with_finite_checks(func: Func) -> Func:
    return finite_checks.check_finite(func) if config.check_finite else func


def tidy(func: Func) -> Func:
    """``func``, a derived kernel whose arrays share no memory, normalized, with less to compute."""
    merged = merge_equal(normalize(func))
    fused = fuse_searches(merged)
    return dce(merged if fused is merged else merge_equal(fused))


def optimize(func: Func) -> Func:
    """``func``, normalized, ready for code generation and for native launches."""
    return plan_accumulations(without_rules(func))


def standalone(func: Func) -> Func:
    """As ``optimize``, for exported code, whose callers make no partial sums."""
    return mark_owned(without_rules(func))
