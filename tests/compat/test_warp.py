"""Programs written for NVIDIA Warp, with the results that ``tests.compat.record`` had of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import kernelcore.compat.warp as wp
from tests.compat import array_programs as array_programs
from tests.compat.programs import PROGRAMS
from tests.compat.record import FILE, as_lists

EXPECTED: dict[str, list[Any]] = json.loads(FILE.read_text())


def test_every_program_has_results() -> None:
    assert sorted(EXPECTED) == sorted(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_warp(name: str) -> None:
    for mine, theirs in zip(as_lists(PROGRAMS[name](wp)), EXPECTED[name], strict=True):
        found, expected = np.array(mine, float), np.array(theirs, float)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)
        # The sign of zero, too.
        assert np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


@wp.func
def size_of(x: float) -> int:
    return 1


@wp.func
def size_of(v: wp.vec3) -> Any:  # noqa: F811
    return 7 / -2


def test_functions_have_overloads() -> None:
    @wp.kernel
    def sizes(out: wp.array(dtype=int)):
        out[0] = size_of(1.0)
        out[1] = size_of(wp.vec3(1.0))

    out = wp.zeros(2, dtype=int)
    wp.launch(sizes, 1, [out])
    assert out.numpy().tolist() == [1, -3]
