"""Writes kernelcore/builtins/maths/coefficients.py: polynomials that are nearly minimax.

Each is a weighted least squares fit at Chebyshev nodes in 60 digits. Its coefficients are rounded
one after the other, and those that are left make up for it. Needs mpmath.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

TARGET = Path(__file__).parents[1] / "kernelcore/builtins/maths/coefficients.py"
HEAD = '''"""Coefficients of polynomials, lowest power first; from tools/fit_coefficients.py."""

from __future__ import annotations

from collections.abc import Mapping

from kernelcore.language.types import Scalar, float32, float64

Table = Mapping[Scalar, tuple[float, ...]]


def _table(*, single: str = "", double: str) -> Table:
    """The numbers in the texts, by the type that they are for."""
    rows = ((float32, single), (float64, double))
    return {dtype: tuple(map(float, text.split())) for dtype, text in rows if text}
'''
NODES_PER_COEFFICIENT = 4

mp.mp.dps = 60


@dataclass(frozen=True)
class Fit:
    """``function`` on [low, high] by polynomials of the given degrees.

    ``weight`` is what an error of the polynomial counts as in the result.
    """

    name: str
    meaning: str
    function: Callable[[Any], Any]
    low: Any
    high: Any
    degree32: int | None
    degree64: int
    weight: Callable[[Any], Any] = lambda t: mp.mpf(1)

    def coefficients(self, dtype: type[Any], degree: int) -> list[Any]:
        """Coefficients rounded to ``dtype``, and the largest error of the result."""
        low, high = mp.mpf(self.low), mp.mpf(self.high)
        count = NODES_PER_COEFFICIENT * (degree + 1)
        angles = [mp.pi * (2 * k + 1) / (2 * count) for k in range(count)]
        nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(a) for a in angles]
        values = [self.function(t) for t in nodes]
        # Least squares weighs all nodes alike; minimax errors are as large at the ends.
        weights = [self.weight(t) for t in nodes]
        found: list[Any] = []
        for first in range(degree + 1):
            powers = range(first, degree + 1)
            rows = [[w * t**k for k in powers] for t, w in zip(nodes, weights, strict=True)]
            right = [
                w * (v - sum(c * t**k for k, c in enumerate(found)))
                for t, v, w in zip(nodes, values, weights, strict=True)
            ]
            solved = mp.lu_solve(mp.matrix(rows), mp.matrix(right))
            found.append(mp.mpf(float(dtype(float(solved[0])))))
        error = max(
            abs(w * (v - mp.polyval(found[::-1], t)))
            for t, v, w in zip(nodes, values, weights, strict=True)
        )
        print(f"{self.name:8} {dtype.__name__} error 2**{float(mp.log(error, 2)):.1f}")
        return found

    def text(self) -> str:
        """The table of this fit."""
        lines = [f"\n# {self.meaning}", f"{self.name} = _table("]
        degrees = (np.float32, "single", self.degree32), (np.float64, "double", self.degree64)
        for dtype, label, degree in degrees:
            if degree is not None:
                numbers = " ".join(str(dtype(float(c))) for c in self.coefficients(dtype, degree))
                lines.append(keyword(label, numbers))
        return "\n".join([*lines, ")\n"])


def keyword(label: str, numbers: str) -> str:
    """The argument ``label`` of a table, in lines of at most 100 characters."""
    line = f'    {label}="{numbers}",'
    if len(line) <= 100:
        return line
    pad = " " * 8
    body = textwrap.fill(
        numbers, 100, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False
    )
    return f'    {label}="""\n{body}\n    """,'


def ratio(function: Callable[[Any], Any], limit: Any) -> Callable[[Any], Any]:
    """``function``, with its limit at 0."""
    return lambda t: function(t) if abs(t) > mp.mpf("1e-12") else mp.mpf(limit)


def of_square(function: Callable[[Any], Any], limit: Any) -> Callable[[Any], Any]:
    """``(function(x) - x) / x**3`` as a function of ``x**2``."""
    return ratio(lambda z: (function(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, limit)


def erfc_scaled(t: Any) -> Any:
    """``(1 + 2 * x) * exp(x**2) * erfc(x) - 1``, where ``t = (x - 2) / (x + 2)``."""
    x = 2 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x) - 1


HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.002")
QUARTER_PI = mp.pi / 4 * mp.mpf("1.002")
LOG_S = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)

FITS = (
    Fit(
        "EXP",
        "exp(r) = 1 + r + r**2 * p(r), abs(r) <= log(2) / 2",
        ratio(lambda r: (mp.expm1(r) - r) / r**2, 0.5),
        -HALF_LN2,
        HALF_LN2,
        4,
        9,
        lambda r: r**2,
    ),
    Fit(
        "LOG",
        "log((1 + s) / (1 - s)) = 2 * s + s * z * p(z), z = s**2, abs(s) <= 0.1716",
        ratio(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, mp.mpf(2) / 3),
        0,
        LOG_S**2 * mp.mpf("1.002"),
        2,
        6,
        lambda z: z,
    ),
    Fit(
        "EXP_SHORT",
        "As EXP, for results of float32",
        ratio(lambda r: (mp.expm1(r) - r) / r**2, 0.5),
        -HALF_LN2,
        HALF_LN2,
        None,
        5,
        lambda r: r**2,
    ),
    Fit(
        "LOG_SHORT",
        "As LOG, for results of float32",
        ratio(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, mp.mpf(2) / 3),
        0,
        LOG_S**2 * mp.mpf("1.002"),
        None,
        4,
        lambda z: z,
    ),
    Fit(
        "LOG_TAIL",
        "log((1 + s) / (1 - s)) = 2 * s + s * z * (2 / 3 + z * p(z)), z = s**2, abs(s) <= 0.1716",
        ratio(
            lambda z: ((2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z - mp.mpf(2) / 3) / z,
            mp.mpf(2) / 5,
        ),
        0,
        LOG_S**2 * mp.mpf("1.002"),
        None,
        7,
        lambda z: z**2,
    ),
    Fit(
        "SIN",
        "sin(r) = r + r * z * p(z), z = r**2, abs(r) <= pi / 4",
        of_square(mp.sin, mp.mpf(-1) / 6),
        0,
        QUARTER_PI**2,
        2,
        5,
        lambda z: z,
    ),
    Fit(
        "COS",
        "cos(r) = 1 - z / 2 + z**2 * p(z), z = r**2, abs(r) <= pi / 4",
        ratio(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mp.mpf(1) / 24),
        0,
        QUARTER_PI**2,
        2,
        5,
        lambda z: z**2,
    ),
    Fit(
        "ATAN",
        "atan(t) = t + t * z * p(z), z = t**2, abs(t) <= 7 / 16",
        of_square(mp.atan, mp.mpf(-1) / 3),
        0,
        mp.mpf("0.1925"),
        4,
        10,
        lambda z: z,
    ),
    Fit(
        "ASIN",
        "asin(t) = t + t * z * p(z), z = t**2, abs(t) <= 1 / 2",
        of_square(mp.asin, mp.mpf(1) / 6),
        0,
        mp.mpf("0.2501"),
        4,
        11,
        lambda z: z,
    ),
    Fit(
        "CBRT",
        "m ** (-1 / 3) = p(m), 1 <= m < 8",
        lambda m: 1 / mp.cbrt(m),
        1,
        8,
        4,
        4,
        mp.cbrt,
    ),
    Fit(
        "TANH",
        "tanh(x) = x + x * z * p(z), z = x**2, abs(x) <= 1",
        of_square(mp.tanh, mp.mpf(-1) / 3),
        0,
        mp.mpf("1.0001"),
        6,
        14,
        lambda z: z,
    ),
    Fit(
        "ERF",
        "erf(x) = x + x * p(x**2), abs(x) <= 1",
        ratio(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2 / mp.sqrt(mp.pi) - 1),
        0,
        mp.mpf("1.0001"),
        7,
        14,
    ),
    Fit(
        "LOG_ERFC",
        "log(erfc(x)) = -(x + x * p(x - 1)), 1 <= x <= 6, where erfc(x) counts beside 1",
        lambda s: -mp.log(mp.erfc(s + 1)) / (s + 1) - 1,
        0,
        5,
        5,
        17,
        lambda s: (s + 1) * mp.erfc(s + 1),
    ),
    Fit(
        "ERFC",
        "(1 + 2 * x) * exp(x**2) * erfc(x) = 1 + p(t), t = (x - 2) / (x + 2), 0.4 <= x <= 28",
        erfc_scaled,
        mp.mpf("-0.6667"),
        mp.mpf("0.8668"),
        11,
        23,
    ),
)


if __name__ == "__main__":
    TARGET.write_text(HEAD + "".join(fit.text() for fit in FITS), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", str(TARGET)], check=True)
