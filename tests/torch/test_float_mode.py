"""Kernels compute with denormals, whatever mode torch has put a thread in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import kernelcore as kc

SIZE = 1 << 17
# Half of it is denormal, and so is a tenth, which is rounded.
SMALL = 2.0e-38


@kc.kernel
def shrink(
    x: kc.array(dtype=kc.float32), y: kc.array(dtype=kc.float32), total: kc.array(dtype=kc.float32)
):
    i = kc.tid()
    y[i] = x[i] * 0.5 + x[i] * 0.1
    kc.atomic_add(total, i % 7, x[i] * 1.0e-5)


@pytest.fixture
def flushing() -> Iterator[None]:
    threads = kc.num_threads()
    if not torch.set_flush_denormal(True):
        pytest.fail("this processor cannot flush denormals")
    yield
    torch.set_flush_denormal(False)
    kc.set_num_threads(threads)


def run(threads: int) -> list[np.ndarray]:
    # Threads of the pool start in the mode of their maker.
    kc.set_num_threads(threads)
    x, y, total = np.full(SIZE, SMALL, np.float32), np.zeros(SIZE, "f4"), np.zeros(7, "f4")
    kc.launch(shrink, SIZE, [x], [y, total])
    return [a.view(np.uint32) for a in (y, total)]


def test_denormals_are_kept_on_every_thread(flushing: None) -> None:
    found = [run(threads) for threads in (1, 2)]
    assert (torch.tensor([SMALL]) * 0.5).item() == 0.0
    torch.set_flush_denormal(False)
    wanted = run(2)
    half = np.float32(SMALL) * np.float32(0.5) + np.float32(SMALL) * np.float32(0.1)
    assert (wanted[0].view(np.float32) == half).all()
    for arrays in found:
        for array, want in zip(arrays, wanted, strict=True):
            np.testing.assert_array_equal(array, want)


def test_the_mode_of_the_caller_is_given_back(flushing: None) -> None:
    run(2)
    assert (torch.tensor([SMALL]) * 0.5).item() == 0.0
