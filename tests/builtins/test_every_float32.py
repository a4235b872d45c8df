"""Elementary functions of float32 against those of float64: a million floats, or every one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from kernelcore.builtins import OPS
from kernelcore.codegen import abi
from kernelcore.language.types import float32, float64
from tests.helpers.kernel_harness import elementwise, launch, one_call
from tests.helpers.maths_reference import REFERENCES

MAX_ULPS = 2.0
BLOCK = 1 << 20
# Of the float64 functions, which test_maths_accuracy.py measures.
ORACLE_ULPS = 2.0 * 2.0**-29
UNARY = [name for name, reference in REFERENCES.items() if len(reference.near) == 1]


def blocks() -> Iterator[np.ndarray]:
    """All bit patterns where KC_EVERY_FLOAT32 is set; else some of every exponent and sign."""
    if os.environ.get("KC_EVERY_FLOAT32", "0") == "0":
        step = (1 << 32) // BLOCK + 3
        yield (np.arange((1 << 32) // step, dtype=np.uint64) * step).astype(np.uint32)
        return
    for start in range(0, 1 << 32, BLOCK):
        yield np.arange(start, start + BLOCK, dtype=np.uint64).astype(np.uint32)


def errors(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How far float32 is from float64, in units of float32; infinities count as 2**128."""
    limit = 2.0**128
    exponent = np.clip(np.frexp(exact)[1] - 1, -126, 127)
    number = np.clip(found.astype(np.float64), -limit, limit)
    distance = np.ldexp(np.abs(number - np.clip(exact, -limit, limit)), 23 - exponent)
    return np.where(np.isnan(found), np.where(np.isnan(exact), 0.0, np.inf), distance)


@pytest.mark.parametrize("name", UNARY)
def test_error_is_at_most_two_units_in_the_last_place(name: str) -> None:
    narrow, wide = (elementwise(one_call(OPS[name], t)) for t in (float32, float64))
    worst, at = 0.0, np.float32(0)
    for bits in blocks():
        x = bits.view(np.float32)
        found, exact = np.zeros_like(x), np.zeros(len(x))
        assert launch(narrow, [x, found], len(x)) == abi.STATUS_OK
        with np.errstate(all="ignore"):
            assert launch(wide, [x.astype(np.float64), exact], len(x)) == abi.STATUS_OK
            found_errors = errors(found, exact)
        if not found_errors.max() <= worst:
            worst, at = found_errors.max(), x[np.argmax(found_errors)]
    print(f"{name}: {worst:.3f} at {at!r}")
    assert worst + ORACLE_ULPS <= MAX_ULPS, (worst, at)
