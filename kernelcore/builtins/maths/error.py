"""erf and erfc: a polynomial around 0. Beyond, erf is 1 minus exp of a polynomial, and erfc is
exp(-x**2) times a function that varies slowly.
"""

from __future__ import annotations

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.coefficients import ERF, ERFC, LOG_ERFC
from kernelcore.builtins.maths.compensated import (
    fast_two_sum,
    moderate_quotient,
    polynomial,
    two_product,
    two_sum,
)
from kernelcore.builtins.maths.exponential import exp_within, exponential
from kernelcore.builtins.maths.formats import copy_sign, scaled
from kernelcore.language.types import float64


def erf(x: Value) -> Value:
    """Error function: within 1.5 ulp."""
    size = abs(x)
    small = size + _beyond_linear(size)
    return copy_sign((size < 1.0).where(small, 1.0 - _small_complement(size)), x)


def erfc(x: Value) -> Value:
    """``1 - erf(x)``: within 1.5 ulp."""
    size = abs(x)
    head = fast_two_sum(x.like(1.0), -x)
    small = head.high + (head.low - _beyond_linear(x))
    tail = _complement(size)
    return (size < 0.5).where(small, (x < 0.0).where(2.0 - tail, tail))


def _beyond_linear(x: Value) -> Value:
    """``erf(x) - x`` for ``abs(x) <= 1``."""
    return x * polynomial(x * x, ERF[x.type])


def _small_complement(x: Value) -> Value:
    """``1 - erf(x)`` for ``x >= 1``, at most 0.16: the error is below an ulp of what is near 1."""
    # Beyond, erf(x) is 1 in every bit.
    most = 6.0 if x.type == float64 else 4.0
    x = (x > most).where(most, x)
    return exp_within(polynomial(x - 1.0, LOG_ERFC[x.type]).times_plus(-x, -x))


def _complement(x: Value) -> Value:
    """``erfc(x)`` for ``x >= 0.4``, in twice the bits.

    Source: M. Shepherd and J. Laframboise, Chebyshev approximation of (1 + 2x) exp(x**2) erfc(x),
    1981.
    """
    most = 28.0 if x.type == float64 else 11.0
    x = (x > most).where(most, x)
    t = (x - 2.0).over(x + 2.0)
    factor = moderate_quotient(
        fast_two_sum(x.like(1.0), polynomial(t, ERFC[x.type])), two_sum(x + x, x.like(1.0))
    )
    square = two_product(x, x)
    power, count = exponential(-square.high)
    low = power.low - power.high * square.low
    product = factor.high * power.high
    rest = factor.high.times_plus(low, factor.low * power.high)
    return scaled(product + rest, count)
