"""Shapes that new arrays are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc


@pytest.mark.parametrize("shape", [2.7, "3", (2.7,), (2, "3"), np.float64(2.0), b"ab", [None]])
def test_a_shape_is_of_integers(shape: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: kc.zeros(shape),
        lambda: kc.full(shape, 1.0),
        lambda: kc.array([1.0, 2.0], shape=shape),
    ]
    for call in calls:
        with pytest.raises(kc.KernelArgumentError) as caught:
            call()
        assert "expected an integer or a sequence of integers as shape" in str(caught.value)
        assert f"found {shape!r}" in str(caught.value)
    mixed: Any = (np.int8(2), 3)
    assert kc.zeros(mixed).shape == (2, 3)
