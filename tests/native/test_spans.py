"""Which arrays share memory, against NumPy's exact answer."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base import native


@kc.kernel
def read(x: kc.array(dtype=kc.float32, ndim=2), y: kc.array(dtype=kc.float32, ndim=2)):
    i, j = kc.tid()
    y[i, j] = x[i, j]


def view(base: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random view of two dimensions."""
    steps = rng.integers(1, 5, 2) * rng.choice([-1, 1], 2)
    starts = rng.integers(0, base.shape[0], 2)
    return base[starts[0] :: steps[0], starts[1] :: steps[1]]


@pytest.mark.parametrize("seed", range(300))
def test_no_shared_element_is_missed(seed: int) -> None:
    base, rng = np.zeros((9, 12), np.float32), np.random.default_rng(seed)
    first, second = view(base, rng), view(base, rng)
    if not first.size or not second.size:
        return
    spans = [native.array_span(read.executable.signature, 0, a) for a in (first, second)]
    if np.shares_memory(first, second):
        assert spans[0].overlaps(spans[1])
        assert spans[1].overlaps(spans[0])


def test_fields_and_columns_that_interleave_are_apart() -> None:
    base = np.zeros((5, 7), np.float32)
    columns = [base[:, 0:2], base[:, 2:5], base[::-1, 5:]]
    spans = [native.array_span(read.executable.signature, 0, a) for a in columns]
    for k, span in enumerate(spans):
        assert [span.overlaps(other) for other in spans] == [k == n for n in range(3)]
