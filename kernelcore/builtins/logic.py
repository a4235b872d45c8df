"""Comparison, logic and choice."""

# Declarations without bodies.
# pyright: reportReturnType=false

from __future__ import annotations

import numpy as np

from kernelcore.builtins import composed, lowering, reference, spelling
from kernelcore.builtins.declare import Any, Bool, Float, Number, builtin
from kernelcore.builtins.lowering import compare, instr
from kernelcore.builtins.spelling import spelled

TRUTH = "result is a truth value"


@builtin(
    lower=compare(float="olt", int="slt", uint="ult"),
    ref=np.less,
    no_grad=TRUTH,
    array=spelled(float="less", int="less"),
)
def less(x: Number, y: Number) -> Bool:
    """Whether ``x < y``; false for NaN."""


@builtin(
    lower=compare(float="ole", int="sle", uint="ule"),
    ref=np.less_equal,
    no_grad=TRUTH,
    array=spelled(float="less_equal", int="less_equal"),
)
def less_equal(x: Number, y: Number) -> Bool:
    """Whether ``x <= y``; false for NaN."""


@builtin(
    lower=compare(float="ogt", int="sgt", uint="ugt"),
    ref=np.greater,
    no_grad=TRUTH,
    array=spelled(float="greater", int="greater"),
)
def greater(x: Number, y: Number) -> Bool:
    """Whether ``x > y``; false for NaN."""


@builtin(
    lower=compare(float="oge", int="sge", uint="uge"),
    ref=np.greater_equal,
    no_grad=TRUTH,
    array=spelled(float="greater_equal", int="greater_equal"),
)
def greater_equal(x: Number, y: Number) -> Bool:
    """Whether ``x >= y``; false for NaN."""


@builtin(
    lower=compare(float="oeq", int="eq"),
    ref=np.equal,
    no_grad=TRUTH,
    array=spelled(float="equal", int="equal", bool="equal"),
)
def equal(x: Any, y: Any) -> Bool:
    """Whether ``x == y``; false for NaN."""


@builtin(
    lower=compare(float="une", int="ne"),
    ref=np.not_equal,
    no_grad=TRUTH,
    array=spelled(float="not_equal", int="not_equal", bool="not_equal"),
)
def not_equal(x: Any, y: Any) -> Bool:
    """Whether ``x != y``; true for NaN."""


@builtin(
    lower=instr(bool="and"),
    ref=np.logical_and,
    no_grad=TRUTH,
    array=spelled(bool="logical_and"),
)
def logical_and(x: Bool, y: Bool) -> Bool:
    """Whether both hold; both are evaluated."""


@builtin(
    lower=instr(bool="or"),
    ref=np.logical_or,
    no_grad=TRUTH,
    array=spelled(bool="logical_or"),
)
def logical_or(x: Bool, y: Bool) -> Bool:
    """Whether either holds; both are evaluated."""


@builtin(
    lower=composed.invert,
    ref=np.logical_not,
    no_grad=TRUTH,
    array=spelled(bool="logical_not"),
)
def logical_not(x: Bool) -> Bool:
    """Whether ``x`` does not hold."""


@builtin(
    lower=composed.isnan,
    ref=np.isnan,
    no_grad=TRUTH,
    array=spelled(float="isnan"),
)
def isnan(x: Float) -> Bool:
    """Whether ``x`` is NaN."""


@builtin(
    lower=composed.isinf,
    ref=np.isinf,
    no_grad=TRUTH,
    array=spelled(float="isinf"),
)
def isinf(x: Float) -> Bool:
    """Whether ``x`` is an infinity of either sign."""


@builtin(
    lower=composed.isfinite,
    ref=np.isfinite,
    no_grad=TRUTH,
    array=spelled(float="isfinite"),
)
def isfinite(x: Float) -> Bool:
    """Whether ``x`` is neither infinite nor NaN."""


@builtin(
    lower=lowering.select,
    ref=reference.select,
    grad={"x": "where(c, ct, 0.0)", "y": "where(c, 0.0, ct)"},
    array=spelled(
        float=spelling.select, int=spelling.select, bool=spelling.select, is_exact_anywhere=True
    ),
)
def where(c: Bool, x: Any, y: Any) -> Any:
    """``x`` if ``c`` holds, else ``y``; both are evaluated.

    So are their derivatives: where that of the other one is infinite, the result's is no number.
    Of ``x if c else y`` only the one that is chosen counts.
    """
