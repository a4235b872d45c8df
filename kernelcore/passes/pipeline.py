"""The order in which passes run."""

from __future__ import annotations

from kernelcore.ir.core import Func
from kernelcore.passes.access import mark_owned
from kernelcore.passes.dce import dce
from kernelcore.passes.inline import inline
from kernelcore.passes.simplify import simplify


def normalize(func: Func) -> Func:
    """The form that transforms take: no calls, no dead code."""
    return dce(simplify(inline(func)))


def optimize(func: Func) -> Func:
    """``func``, normalized, ready for code generation."""
    return mark_owned(func)
