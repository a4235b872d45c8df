"""What kernels print, as the host writes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelcore.language.types import Scalar, Type


def formatted(directive: str) -> Callable[[Any], str]:
    """How ``printf`` writes a value under ``directive``."""

    flags = len(directive) - len(directive.lstrip("%-+ #0"))
    # C does not pad infinities and NaN with zeros.
    unpadded = directive[:flags].replace("0", "") + directive[flags:]

    def show(value: Any) -> str:
        number = np.asarray(value).item()
        if isinstance(number, int) or math.isfinite(number):
            return directive % number
        return unpadded % (math.nan if math.isnan(number) else number)

    return show


def shown(dtype: Type) -> Callable[[Any], str]:
    """How values of a scalar type are printed: as Python's str, floats as C's ``%g``."""
    assert isinstance(dtype, Scalar)
    return (lambda value: f"{float(value):g}") if dtype.is_float else (lambda value: str(value))
