"""Interpolation, steps, and the inverses of the error functions."""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any, TypeVar

from kernelcore.builtins.arithmetic import abs, clamp
from kernelcore.builtins.elementary import erf, erfc, exp, log, sqrt
from kernelcore.builtins.library import library
from kernelcore.builtins.logic import where
from kernelcore.language.composite_types import matrix, quaternion, transformation, vector
from kernelcore.language.types import AnyFloat, AnyScalar

F = TypeVar("F", bound=AnyFloat)
C = TypeVar(
    "C",
    vector(length=Any, dtype=AnyFloat),
    matrix(shape=(Any, Any), dtype=AnyFloat),
    quaternion(dtype=AnyFloat),
    transformation(dtype=AnyFloat),
)

_HALF_SQRT_PI = 0.886226925452758


@library()
def lerp(a: F, b: F, t: F) -> Any:
    """``a * (1 - t) + b * t``: floats of one dtype; exactly ``a`` at 0 and ``b`` at 1."""
    return a * (1.0 - t) + b * t


@library()
def lerp(a: C, b: C, t: AnyFloat) -> Any:
    """Each component of two vectors, matrices, quaternions or transforms of one float type.

    ``t`` is a scalar of their dtype. Rotations of the result have not length 1: see ``quat_slerp``.
    """
    return a * (1.0 - t) + b * t


@library()
def smoothstep(edge0: F, edge1: F, x: F) -> Any:
    """0 up to ``edge0``, 1 from ``edge1`` on, a cubic with slope 0 at both ends between; floats.

    Source: OpenGL Shading Language 4.60, section 8.3.
    """
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


@library()
def step(x: AnyScalar) -> Any:
    """1 for ``x < 0`` and 0 otherwise, of the type of ``x``, a scalar of any dtype.

    The OPPOSITE of the Heaviside function and of ``step`` in shading languages: this is what
    ``step`` of NVIDIA Warp is, so that its kernels keep their meaning.
    """
    return where(x < type(x)(0), type(x)(1), type(x)(0))


@library()
def nonzero(x: AnyScalar) -> Any:
    """1 for ``x != 0`` and 0 otherwise, of the type of ``x``, a scalar of any dtype."""
    return where(x != type(x)(0), type(x)(1), type(x)(0))


@library()
def _halley(y: F, miss: F) -> Any:
    """Halley's step from ``y``, where erf or -erfc is ``miss`` too large."""
    u = miss * _HALF_SQRT_PI / exp(-y * y)
    return y - u / (1.0 + y * u)


@library()
def _upper(p: AnyFloat) -> Any:
    """The y with ``erfc(y) = p``, for ``p`` in [0, 1]; NaN below 0.

    Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.23, for the start.
    """
    if p == 0.0:
        return 1.0 / p
    t = sqrt(-2.0 * log(0.5 * p))
    numerator = 2.515517 + t * (0.802853 + t * 0.010328)
    denominator = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    y = 0.7071067811865476 * (t - numerator / denominator)
    y = _halley(y, p - erfc(y))
    return _halley(y, p - erfc(y))


@library()
def _middle(x: AnyFloat) -> Any:
    """The y with ``erf(y) = x``, for a magnitude of at most 0.5.

    Source: NIST Digital Library of Mathematical Functions, 7.17.2, for the start.
    """
    w = 0.7853981633974483 * x * x
    series = 1.0 + w * (1.0 / 3.0 + w * (7.0 / 30.0 + w * (127.0 / 630.0)))
    y = _HALF_SQRT_PI * x * series
    y = _halley(y, erf(y) - x)
    return _halley(y, erf(y) - x)


@library()
def erfinv(x: AnyFloat) -> Any:
    """The y with ``erf(y) = x``, floats: infinite at -1 and 1, NaN beyond.

    Two steps of Halley's method refine a start that is good to 4e-4, to a few units in the last
    place of the dtype; so do their derivatives.
    """
    if abs(x) <= 0.5:
        return _middle(x)
    y = _upper(1.0 - abs(x))
    return where(x < 0.0, -y, y)


@library()
def erfcinv(x: AnyFloat) -> Any:
    """The y with ``erfc(y) = x``, floats: infinite at 0 and 2, NaN beyond; accurate near 0.

    As ``erfinv``; below the smallest normal number of the dtype it loses precision.
    """
    if x < 0.5:
        return _upper(x)
    if x > 1.5:
        return -_upper(2.0 - x)
    return _middle(1.0 - x)


@library()
def select(cond: Any, value_if_false: Any, value_if_true: Any) -> Any:
    """``value_if_true`` if ``cond`` holds, else ``value_if_false``: note the order; see ``where``.

    Any two values of one type; both are evaluated.
    """
    return where(cond, value_if_true, value_if_false)
