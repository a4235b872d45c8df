"""Memory of data arrays is counted."""

from __future__ import annotations

import gc

import numpy as np
import torch

import kernelcore as kc


def test_allocations_are_counted() -> None:
    gc.collect()
    with kc.ScopedMemoryTracker("block", print=False) as tracker:
        kept = kc.zeros(100)
        for _ in range(3):
            kc.zeros(1000)
        copied = kc.from_numpy(np.ones(10, np.float32))
    assert tracker.count == 5
    assert tracker.size_bytes == 4 * (100 + 3 * 1000 + 10)
    assert tracker.live_bytes == 4 * (kept.size + copied.size)
    assert tracker.peak_bytes == 4 * (100 + 1000)


def test_shared_memory_is_not_counted_and_gradients_are() -> None:
    tensor, values = torch.ones(8), np.ones(8, np.float32)
    with kc.ScopedMemoryTracker(print=False) as tracker:
        arrays = [kc.from_torch(tensor), kc.from_numpy(values, copy=False)]
    assert tracker.count == 0
    with kc.ScopedMemoryTracker(print=False) as tracker:
        arrays[0].requires_grad = True
        assert arrays[0].grad is not None
    assert tracker.live_bytes == 32


def test_blocks_nest_and_report() -> None:
    texts: list[str] = []
    with kc.ScopedMemoryTracker("outer", report_func=texts.append) as outer:
        kc.zeros(1000)
        with kc.ScopedMemoryTracker("inner", report_func=texts.append) as inner:
            kc.zeros(10)
    assert (inner.peak_bytes, outer.peak_bytes) == (40, 4000)
    assert texts == [
        "inner: 1 allocations of 40 bytes, at most 40 bytes at once, 0 more than before still in "
        "use",
        "outer: 2 allocations of 4040 bytes, at most 4000 bytes at once, 0 more than before still "
        "in use",
    ]


def test_an_inactive_tracker_counts_nothing() -> None:
    with kc.ScopedMemoryTracker(active=False) as tracker:
        kc.zeros(10)
    assert tracker.count == 0
