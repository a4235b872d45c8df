"""The matrix of kernels and transformations; ``test_matrix`` runs it on two devices."""

from __future__ import annotations

import os
from itertools import product

import jax
import numpy as np
import pytest

from tests.jax.matrix import CASES, TRANSFORMS, Data, outputs

KINDS = ("kernel", "callable")
CELLS = list(product(CASES, KINDS, TRANSFORMS))
# A prime to the number of transformations: every row and every column has some.
SLICE = 1 if os.environ.get("KC_JAX_MATRIX") == "whole" else 31


@pytest.mark.parametrize(("case", "kind", "transform"), CELLS[::SLICE])
def test_agrees_with_pure_jax(case: str, kind: str, transform: str) -> None:
    chosen, apply = CASES[case], TRANSFORMS[transform]
    data = Data(chosen)
    function = outputs(chosen.kernel if kind == "kernel" else chosen.function)
    found = jax.jit(lambda: apply(function, data))()
    expected = jax.jit(lambda: apply(outputs(chosen.reference), data))()
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
