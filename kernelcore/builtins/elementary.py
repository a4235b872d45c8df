"""Powers, exponentials, logarithms, trigonometry and the error function."""

# Declarations without bodies.
# pyright: reportReturnType=false

from __future__ import annotations

import numpy as np

from kernelcore.builtins.declare import Float, builtin
from kernelcore.builtins.lowering import intrinsic
from kernelcore.builtins.maths import (
    error,
    exponential,
    hyperbolic,
    inverse,
    inverse_hyperbolic,
    logarithm,
    power,
    root,
    trigonometric,
)
from kernelcore.builtins.maths.entry import written


@builtin(**written(trigonometric.sin), grad={"x": "ct * cos(x)"})
def sin(x: Float) -> Float:
    """Sine of ``x``, in radians."""


@builtin(**written(trigonometric.cos), grad={"x": "-ct * sin(x)"})
def cos(x: Float) -> Float:
    """Cosine of ``x``, in radians."""


@builtin(**written(trigonometric.tan), grad={"x": "ct * (1.0 + out * out)"})
def tan(x: Float) -> Float:
    """Tangent of ``x``, in radians."""


@builtin(**written(inverse.asin), grad={"x": "ct / sqrt(1.0 - x * x)"})
def asin(x: Float) -> Float:
    """Angle in [-pi/2, pi/2] whose sine is ``x``; NaN outside [-1, 1]."""


@builtin(**written(inverse.acos), grad={"x": "-ct / sqrt(1.0 - x * x)"})
def acos(x: Float) -> Float:
    """Angle in [0, pi] whose cosine is ``x``; NaN outside [-1, 1]."""


@builtin(**written(inverse.atan), grad={"x": "ct / (1.0 + x * x)"})
def atan(x: Float) -> Float:
    """Angle in [-pi/2, pi/2] whose tangent is ``x``."""


@builtin(
    **written(inverse.atan2),
    grad={"y": "ct * x / (x * x + y * y)", "x": "-ct * y / (x * x + y * y)"},
)
def atan2(y: Float, x: Float) -> Float:
    """Angle in [-pi, pi] of the point ``(x, y)``."""


@builtin(**written(hyperbolic.sinh), grad={"x": "ct * cosh(x)"})
def sinh(x: Float) -> Float:
    """Hyperbolic sine of ``x``."""


@builtin(**written(hyperbolic.cosh), grad={"x": "ct * sinh(x)"})
def cosh(x: Float) -> Float:
    """Hyperbolic cosine of ``x``."""


@builtin(**written(hyperbolic.tanh), grad={"x": "ct * (1.0 - out * out)"})
def tanh(x: Float) -> Float:
    """Hyperbolic tangent of ``x``."""


@builtin(**written(inverse_hyperbolic.asinh), grad={"x": "ct / sqrt(x * x + 1.0)"})
def asinh(x: Float) -> Float:
    """Inverse of ``sinh``."""


@builtin(**written(inverse_hyperbolic.acosh), grad={"x": "ct / (sqrt(x - 1.0) * sqrt(x + 1.0))"})
def acosh(x: Float) -> Float:
    """Inverse of ``cosh``, not negative; NaN below 1."""


@builtin(**written(inverse_hyperbolic.atanh), grad={"x": "ct / (1.0 - x * x)"})
def atanh(x: Float) -> Float:
    """Inverse of ``tanh``; infinite at -1 and 1, NaN beyond."""


@builtin(**written(exponential.exp), grad={"x": "ct * out"})
def exp(x: Float) -> Float:
    """Exponential of ``x``."""


@builtin(**written(exponential.exp2), grad={"x": "ct * out * 0.6931471805599453"})
def exp2(x: Float) -> Float:
    """2 raised to ``x``."""


@builtin(**written(exponential.exp10), grad={"x": "2.302585092994046 * ct * out"})
def exp10(x: Float) -> Float:
    """10 raised to ``x``."""


@builtin(**written(exponential.expm1), grad={"x": "ct * (out + 1.0)"})
def expm1(x: Float) -> Float:
    """``exp(x) - 1``, accurate near 0."""


@builtin(**written(logarithm.log), grad={"x": "ct / x"})
def log(x: Float) -> Float:
    """Natural logarithm of ``x``; -inf at 0, NaN below."""


@builtin(**written(logarithm.log2), grad={"x": "ct / (x * 0.6931471805599453)"})
def log2(x: Float) -> Float:
    """Logarithm of ``x`` to base 2; -inf at 0, NaN below."""


@builtin(**written(logarithm.log10), grad={"x": "ct / (x * 2.302585092994046)"})
def log10(x: Float) -> Float:
    """Logarithm of ``x`` to base 10; -inf at 0, NaN below."""


@builtin(**written(logarithm.log1p), grad={"x": "ct / (1.0 + x)"})
def log1p(x: Float) -> Float:
    """``log(1 + x)``, accurate near 0."""


@builtin(lower=intrinsic("sqrt"), ref=np.sqrt, grad={"x": "0.5 * ct / out"})
def sqrt(x: Float) -> Float:
    """Square root of ``x``; NaN below 0, and the derivative at 0 is infinite."""


@builtin(**written(root.rsqrt), grad={"x": "-0.5 * ct * out / x"})
def rsqrt(x: Float) -> Float:
    """``1 / sqrt(x)``; NaN below 0."""


@builtin(
    **written(root.hypot),
    grad={
        "x": "where(out == 0.0, 0.0, ct * x / out)",
        "y": "where(out == 0.0, 0.0, ct * y / out)",
    },
)
def hypot(x: Float, y: Float) -> Float:
    """``sqrt(x * x + y * y)`` without overflow on the way; the derivative at 0 is 0."""


@builtin(**written(root.cbrt), grad={"x": "ct / (3.0 * out * out)"})
def cbrt(x: Float) -> Float:
    """Cube root of ``x``; the derivative at 0 is infinite."""


@builtin(
    **written(power.pow),
    grad={
        "x": "where(y == 0.0, 0.0, ct * y * pow(x, y - 1.0))",
        "y": "where(x == 0.0, 0.0, ct * out * log(x))",
    },
)
def pow(x: Float, y: Float) -> Float:
    """``x`` raised to ``y``; the derivative by ``x`` is 0 at ``y == 0``, by ``y`` at ``x == 0``."""


@builtin(**written(error.erf), grad={"x": "ct * 1.1283791670955126 * exp(-x * x)"})
def erf(x: Float) -> Float:
    """Error function of ``x``."""


@builtin(**written(error.erfc), grad={"x": "-ct * 1.1283791670955126 * exp(-x * x)"})
def erfc(x: Float) -> Float:
    """``1 - erf(x)``, accurate for large ``x``."""


@builtin(**written(trigonometric.degrees), grad={"x": "ct * 57.29577951308232"})
def degrees(x: Float) -> Float:
    """Angle ``x`` in radians, in degrees."""


@builtin(**written(trigonometric.radians), grad={"x": "ct * 0.017453292519943295"})
def radians(x: Float) -> Float:
    """Angle ``x`` in degrees, in radians."""
