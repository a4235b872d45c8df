"""The order in which passes run."""

from __future__ import annotations

from kernelcore.ir.core import Func
from kernelcore.passes.access import mark_owned
from kernelcore.passes.custom import lower_custom
from kernelcore.passes.dce import dce
from kernelcore.passes.gradient import expand_gradients
from kernelcore.passes.inline import inline
from kernelcore.passes.simplify import simplify


def normalize(func: Func) -> Func:
    """The form that transforms take: no calls, no dead code.

    Raises:
        KernelGradError: The kernel asks for a gradient that does not exist.
    """
    return dce(simplify(expand_gradients(inline(func))))


def optimize(func: Func) -> Func:
    """``func``, normalized, ready for code generation."""
    return mark_owned(lower_custom(func))
