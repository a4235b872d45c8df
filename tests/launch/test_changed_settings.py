"""Launches follow settings that change while another launch runs."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest

import kernelcore as kc


@kc.kernel
def store_at(x: kc.array(dtype=float), at: int):
    i = kc.tid()
    x[i + at] = 1.0


@pytest.fixture(autouse=True)
def _mode() -> Generator[None]:
    saved = kc.config.mode
    yield
    kc.config.mode = saved


class Zero:
    """0, while another thread asks for checks."""

    def __index__(self) -> int:
        kc.config.mode = "debug"
        return 0


def test_a_mode_that_is_set_during_the_first_launch_holds_for_the_next_one() -> None:
    memory = np.zeros(4, np.float32)
    x = memory[:2]
    kc.launch(store_at, 1, [x, Zero()])
    with pytest.raises(kc.KernelIndexError):
        kc.launch(store_at, 1, [x, 3])
    assert memory.tolist() == [1, 0, 0, 0]
