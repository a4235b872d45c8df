"""Elementary functions to any precision, and how far a float is from such a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from mpmath import mp, mpf

Interval = tuple[float, float]

# Bits beyond those that the largest exponent takes, where periods are subtracted.
_GUARD_BITS = 160
# Powers beyond are 0 or infinite in every type.
_MOST = 4000


@dataclass(frozen=True)
class Reference:
    """An elementary function.

    Attributes:
        exact: It on real numbers, where it is defined and finite.
        domain: Where that is.
        near: Intervals, per operand, in which errors are likely.
    """

    exact: Callable[..., Any]
    domain: Callable[..., bool]
    near: tuple[tuple[Interval, ...], ...]


def _always(*_: Any) -> bool:
    return True


def _in_one(x: Any) -> bool:
    return abs(x) <= 1


def _held(x: Any) -> Any:
    return max(min(x, _MOST), -_MOST)


def _power(x: Any, y: Any) -> Any:
    if x == 0:
        return mpf(0)
    size = mp.exp(_held(y * mp.log(abs(x))))
    return -size if x < 0 and y % 2 == 1 else size


def _unary(
    exact: Callable[[Any], Any],
    *near: Interval,
    domain: Callable[[Any], bool] = _always,
) -> Reference:
    return Reference(exact, domain, (near,))


_ANGLES: tuple[Interval, ...] = ((-1.0, 1.0), (-100.0, 100.0), (9e4, 1.1e5), (1.4e6, 1.7e6))
REFERENCES: Mapping[str, Reference] = {
    "exp": _unary(lambda x: mp.exp(_held(x)), (-1.0, 1.0), (-110.0, 90.0), (-750.0, 710.0)),
    "exp2": _unary(lambda x: mpf(2) ** _held(x), (-1.0, 1.0), (-152.0, 130.0), (-1080.0, 1025.0)),
    "exp10": _unary(lambda x: mpf(10) ** _held(x), (-1.0, 1.0), (-46.0, 39.0), (-325.0, 309.0)),
    "expm1": _unary(lambda x: mp.expm1(_held(x)), (-1.5, 1.5), (-40.0, 90.0), (-1e-6, 1e-6)),
    "log": _unary(mp.log, (0.5, 2.0), (0.99, 1.01), domain=lambda x: x > 0),
    "log2": _unary(lambda x: mp.log(x, 2), (0.5, 2.0), (0.99, 1.01), domain=lambda x: x > 0),
    "log10": _unary(mp.log10, (0.5, 2.0), (0.99, 1.01), domain=lambda x: x > 0),
    "log1p": _unary(mp.log1p, (-0.9999, 2.0), (-1e-4, 1e-4), domain=lambda x: x > -1),
    "sin": _unary(mp.sin, *_ANGLES),
    "cos": _unary(mp.cos, *_ANGLES),
    "tan": _unary(mp.tan, *_ANGLES),
    "sinh": _unary(lambda x: mp.sinh(_held(x)), (-1.0, 1.0), (-90.0, 90.0), (-711.0, 711.0)),
    "cosh": _unary(lambda x: mp.cosh(_held(x)), (-1.0, 1.0), (-90.0, 90.0), (-711.0, 711.0)),
    "tanh": _unary(lambda x: mp.tanh(_held(x)), (-1.0, 1.0), (-20.0, 20.0), (-1e-5, 1e-5)),
    "asin": _unary(mp.asin, (-1.0, 1.0), (0.4999, 0.5001), (0.999, 1.0), domain=_in_one),
    "acos": _unary(mp.acos, (-1.0, 1.0), (0.4999, 0.5001), (0.999, 1.0), domain=_in_one),
    "atan": _unary(mp.atan, (-1.0, 1.0), (-5.0, 5.0), (0.414, 0.4143), (2.414, 2.4143)),
    "atan2": Reference(
        lambda y, x: mp.atan2(y, x),
        lambda y, x: y != 0 or x > 0,
        (((-1.0, 1.0), (-1e-3, 1e-3)), ((-1.0, 1.0), (-1.0, 1.0))),
    ),
    "asinh": _unary(mp.asinh, (-1.0, 1.0), (-100.0, 100.0), (0.0, 1e5), (0.0, 1e9)),
    "acosh": _unary(mp.acosh, (1.0, 2.0), (1.0, 1e3), (0.0, 1e9), domain=lambda x: x >= 1),
    "atanh": _unary(mp.atanh, (-1.0, 1.0), (-1e-3, 1e-3), domain=lambda x: abs(x) < 1),
    "cbrt": _unary(lambda x: mp.sign(x) * mp.cbrt(abs(x)), (-8.0, 8.0), (0.0, 1e3)),
    "rsqrt": _unary(lambda x: 1 / mp.sqrt(x), (0.0, 4.0), domain=lambda x: x > 0),
    "hypot": Reference(mp.hypot, _always, (((-1.0, 1.0), (0.0, 1e3)), ((-1.0, 1.0), (-0.1, 0.1)))),
    "erf": _unary(mp.erf, (-1.2, 1.2), (-6.0, 6.0), (0.99, 1.01)),
    "erfc": _unary(
        lambda x: mp.erfc(min(x, _MOST)), (-1.0, 1.0), (-6.0, 11.0), (0.49, 0.51), (0.0, 28.0)
    ),
    "pow": Reference(
        _power,
        lambda x, y: (x > 0 or y == int(y)) and (x != 0 or y > 0),
        (((0.5, 2.0), (0.0, 50.0), (0.99, 1.01)), ((-150.0, 150.0), (-20.0, 20.0), (-9e4, 9e4))),
    ),
}


def exact(name: str, *operands: Any) -> Any:
    """The function ``name`` at floats, as a number of mpmath; None where it is not finite."""
    reference, numbers = REFERENCES[name], [mpf(float(x)) for x in operands]
    if not all(mp.isfinite(x) for x in numbers) or not reference.domain(*numbers):
        return None
    with mpmath.workprec(_GUARD_BITS + max([0, *(mp.mag(x) for x in numbers if x)])):
        return +reference.exact(*numbers)


def ulps(found: Any, expected: Any) -> float:
    """How far ``found``, a NumPy float, is from ``expected`` in units of its last place.

    An infinity counts as the power of two that is too large to be represented.
    """
    info = np.finfo(type(found))
    number = mpf(float(found))
    largest = mpf(2) ** info.maxexp
    if math.isnan(found):
        return math.inf
    if math.isinf(found):
        number = largest if found > 0 else -largest
        expected = min(max(expected, -largest), largest)
    exponent = max(mp.mag(expected) - 1, info.minexp) if expected else info.minexp
    unit = mpf(2) ** (min(exponent, info.maxexp - 1) - info.nmant)
    return float(abs(number - expected) / unit)


# The intervals that tests draw the arguments of built-ins from.
INTEGER_DOMAIN = (-9, 9)
_FLOAT_DOMAINS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("div", "pow"), (0.5, 2.0)),
    **dict.fromkeys(("floordiv", "mod", "fmod"), (0.3, 3.0)),
    **dict.fromkeys(("tan",), (-1.2, 1.2)),
    **dict.fromkeys(("asin", "acos", "atanh"), (-0.9, 0.9)),
    **dict.fromkeys(("atan2",), (0.3, 2.0)),
    **dict.fromkeys(("acosh",), (1.1, 3.0)),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "hypot", "cbrt"), (0.1, 3.0)),
    **dict.fromkeys(("log1p",), (-0.5, 3.0)),
}


def float_domain(name: str) -> tuple[float, float]:
    """The interval of the float arguments of the built-in ``name``."""
    return _FLOAT_DOMAINS.get(name, (-2.0, 2.0))
