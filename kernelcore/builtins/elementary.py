"""Powers, exponentials, logarithms, trigonometry and the error function."""

# Declarations without bodies.
# pyright: reportReturnType=false

from __future__ import annotations

import numpy as np

from kernelcore.base.lazy import Deferred
from kernelcore.builtins import spelling
from kernelcore.builtins.declare import Float, builtin
from kernelcore.builtins.lowering import intrinsic
from kernelcore.builtins.maths.entry import written
from kernelcore.builtins.spelling import LIBRARY_ULP, elementary, spelled

# A kernel needs few of them, and each is a module of coefficients.
error = Deferred("kernelcore.builtins.maths.error")
exponential = Deferred("kernelcore.builtins.maths.exponential")
hyperbolic = Deferred("kernelcore.builtins.maths.hyperbolic")
inverse = Deferred("kernelcore.builtins.maths.inverse")
inverse_hyperbolic = Deferred("kernelcore.builtins.maths.inverse_hyperbolic")
logarithm = Deferred("kernelcore.builtins.maths.logarithm")
power = Deferred("kernelcore.builtins.maths.power")
root = Deferred("kernelcore.builtins.maths.root")
trigonometric = Deferred("kernelcore.builtins.maths.trigonometric")


@builtin(
    **written(trigonometric, "sin"),
    grad={"x": "ct * cos(x)"},
    array=elementary("sin"),
)
def sin(x: Float) -> Float:
    """Sine of ``x``, in radians."""


@builtin(
    **written(trigonometric, "cos"),
    grad={"x": "-ct * sin(x)"},
    array=elementary("cos"),
)
def cos(x: Float) -> Float:
    """Cosine of ``x``, in radians."""


@builtin(
    **written(trigonometric, "tan"),
    grad={"x": "ct * (1.0 + out * out)"},
    array=elementary("tan"),
)
def tan(x: Float) -> Float:
    """Tangent of ``x``, in radians."""


@builtin(
    **written(inverse, "asin"),
    grad={"x": "ct / sqrt(1.0 - x * x)"},
    array=elementary("asin"),
)
def asin(x: Float) -> Float:
    """Angle in [-pi/2, pi/2] whose sine is ``x``; NaN outside [-1, 1]."""


@builtin(
    **written(inverse, "acos"),
    grad={"x": "-ct / sqrt(1.0 - x * x)"},
    array=elementary("acos"),
)
def acos(x: Float) -> Float:
    """Angle in [0, pi] whose cosine is ``x``; NaN outside [-1, 1]."""


@builtin(
    **written(inverse, "atan"),
    grad={"x": "ct / (1.0 + x * x)"},
    array=elementary("atan"),
)
def atan(x: Float) -> Float:
    """Angle in [-pi/2, pi/2] whose tangent is ``x``."""


@builtin(
    **written(inverse, "atan2"),
    grad={"y": "ct * x / (x * x + y * y)", "x": "-ct * y / (x * x + y * y)"},
    array=elementary("atan2"),
)
def atan2(y: Float, x: Float) -> Float:
    """Angle in [-pi, pi] of the point ``(x, y)``."""


@builtin(**written(hyperbolic, "sinh"), grad={"x": "ct * cosh(x)"})
def sinh(x: Float) -> Float:
    """Hyperbolic sine of ``x``."""


@builtin(**written(hyperbolic, "cosh"), grad={"x": "ct * sinh(x)"})
def cosh(x: Float) -> Float:
    """Hyperbolic cosine of ``x``."""


@builtin(
    **written(hyperbolic, "tanh"),
    grad={"x": "ct * (1.0 - out * out)"},
    array=elementary("tanh"),
)
def tanh(x: Float) -> Float:
    """Hyperbolic tangent of ``x``."""


@builtin(
    **written(inverse_hyperbolic, "asinh"),
    grad={"x": "ct / sqrt(x * x + 1.0)"},
    array=elementary("asinh"),
)
def asinh(x: Float) -> Float:
    """Inverse of ``sinh``."""


@builtin(
    **written(inverse_hyperbolic, "acosh"),
    grad={"x": "ct / (sqrt(x - 1.0) * sqrt(x + 1.0))"},
    array=elementary("acosh"),
)
def acosh(x: Float) -> Float:
    """Inverse of ``cosh``, not negative; NaN below 1."""


@builtin(**written(inverse_hyperbolic, "atanh"), grad={"x": "ct / (1.0 - x * x)"})
def atanh(x: Float) -> Float:
    """Inverse of ``tanh``; infinite at -1 and 1, NaN beyond."""


@builtin(
    **written(exponential, "exp"),
    grad={"x": "ct * out"},
    array=elementary("exp"),
)
def exp(x: Float) -> Float:
    """Exponential of ``x``."""


@builtin(**written(exponential, "exp2"), grad={"x": "ct * out * 0.6931471805599453"})
def exp2(x: Float) -> Float:
    """2 raised to ``x``."""


@builtin(**written(exponential, "exp10"), grad={"x": "2.302585092994046 * ct * out"})
def exp10(x: Float) -> Float:
    """10 raised to ``x``."""


@builtin(**written(exponential, "expm1"), grad={"x": "ct * (out + 1.0)"})
def expm1(x: Float) -> Float:
    """``exp(x) - 1``, accurate near 0."""


@builtin(
    **written(logarithm, "log"),
    grad={"x": "ct / x"},
    array=elementary("log"),
)
def log(x: Float) -> Float:
    """Natural logarithm of ``x``; -inf at 0, NaN below."""


@builtin(
    **written(logarithm, "log2"),
    grad={"x": "ct / (x * 0.6931471805599453)"},
    array=elementary("log2"),
)
def log2(x: Float) -> Float:
    """Logarithm of ``x`` to base 2; -inf at 0, NaN below."""


@builtin(
    **written(logarithm, "log10"),
    grad={"x": "ct / (x * 2.302585092994046)"},
    array=elementary("log10"),
)
def log10(x: Float) -> Float:
    """Logarithm of ``x`` to base 10; -inf at 0, NaN below."""


@builtin(
    **written(logarithm, "log1p"),
    grad={"x": "ct / (1.0 + x)"},
    array=elementary("log1p"),
)
def log1p(x: Float) -> Float:
    """``log(1 + x)``, accurate near 0."""


@builtin(
    lower=intrinsic("sqrt"),
    ref=np.sqrt,
    grad={"x": "0.5 * ct / out"},
    array=spelled(float="sqrt"),
)
def sqrt(x: Float) -> Float:
    """Square root of ``x``; NaN below 0, and the derivative at 0 is infinite."""


@builtin(
    **written(root, "rsqrt"),
    grad={"x": "-0.5 * ct * out / x"},
    array=spelled(float=spelling.reciprocal_root, ulp=LIBRARY_ULP),
)
def rsqrt(x: Float) -> Float:
    """``1 / sqrt(x)``; NaN below 0."""


@builtin(
    **written(root, "hypot"),
    grad={
        # Without a quotient of zeros, so that the derivatives of this at 0 are 0, too.
        "x": "where(out == 0.0, 0.0, ct * x / where(out == 0.0, 1.0, out))",
        "y": "where(out == 0.0, 0.0, ct * y / where(out == 0.0, 1.0, out))",
    },
    array=elementary("hypot"),
)
def hypot(x: Float, y: Float) -> Float:
    """``sqrt(x * x + y * y)`` without overflow on the way; the derivatives at 0 are 0."""


@builtin(**written(root, "cbrt"), grad={"x": "ct / (3.0 * out * out)"})
def cbrt(x: Float) -> Float:
    """Cube root of ``x``; the derivative at 0 is infinite."""


@builtin(
    **written(power, "pow"),
    grad={
        # At y == 0 an infinite power would give 0 * inf; a finite one keeps its derivative by y.
        "x": "where(y == 0.0 and not isfinite(pow(x, y - 1.0)), 0.0, ct * y * pow(x, y - 1.0))",
        "y": "where(x == 0.0, 0.0, ct * out * log(x))",
    },
    array=elementary("pow"),
)
def pow(x: Float, y: Float) -> Float:
    """``x`` raised to ``y``; the derivative by ``x`` is 0 at ``y == 0``, by ``y`` at ``x == 0``."""


@builtin(**written(error, "erf"), grad={"x": "ct * 1.1283791670955126 * exp(-x * x)"})
def erf(x: Float) -> Float:
    """Error function of ``x``."""


@builtin(**written(error, "erfc"), grad={"x": "-ct * 1.1283791670955126 * exp(-x * x)"})
def erfc(x: Float) -> Float:
    """``1 - erf(x)``, accurate for large ``x``."""


@builtin(**written(trigonometric, "degrees"), grad={"x": "ct * 57.29577951308232"})
def degrees(x: Float) -> Float:
    """Angle ``x`` in radians, in degrees."""


@builtin(**written(trigonometric, "radians"), grad={"x": "ct * 0.017453292519943295"})
def radians(x: Float) -> Float:
    """Angle ``x`` in degrees, in radians."""
