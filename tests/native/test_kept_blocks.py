"""Threads keep the large blocks that kernels allocate, from one launch to the next."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import os
import resource
import subprocess
import sys
from threading import Thread

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base import native
from tests.helpers.environment import ROOT

PAGE_BYTES = resource.getpagesize()
# The C library is told to give all memory back to the system.
EAGER = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
LAUNCHES = 5
# Steps that a launch records in blocks that are kept, and in one that is too large for that.
KEPT, LARGE = (20_000, 60_000, 20_000, 100_000), 2_500_000
LARGEST_KEPT, THREADS = 1_500_000, 40


@kc.kernel
def power(x: kc.array(dtype=kc.float64), n: int, y: kc.array(dtype=kc.float64)):
    """Its adjoint of one point records 8 bytes for a step."""
    i = kc.tid()
    v = x[i]
    for _ in range(n):
        v = v * v * x[i]
    y[i] = v


def gradient(steps: int) -> float:
    x, y, of_x = np.ones(1), np.zeros(1), np.zeros(1)
    kc.launch(power, 1, [x, steps], [y], [of_x, None], [np.ones(1)], adjoint=True)
    return of_x[0]


def faults(steps: int) -> float:
    """Pages that a launch gets from the system."""
    gradient(steps)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(LAUNCHES):
        gradient(steps)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / LAUNCHES


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def report_of_threads() -> None:
    """By how much the memory grows while threads come, launch, and end."""
    kc.set_num_threads(1)
    gradient(LARGEST_KEPT)
    before = peak_bytes()
    for _ in range(THREADS):
        thread = Thread(target=gradient, args=(LARGEST_KEPT,))
        thread.start()
        thread.join()
    print(peak_bytes() - before)


def report() -> None:
    kc.set_num_threads(1)
    print(*(faults(steps) for steps in (*KEPT, LARGE)))
    assert gradient(3) == 15.0


def printed(function: str) -> list[float]:
    """What a process prints that runs ``function`` of this module."""
    command = [sys.executable, "-c", f"from {__name__} import {function}; {function}()"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=os.environ | EAGER
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [float(word) for word in done.stdout.split()]


keeps_blocks = pytest.mark.skipif(
    native.load_object is None, reason="LLVM's linker loads objects here"
)


@keeps_blocks
def test_launches_have_the_pages_of_the_launch_before() -> None:
    *kept, large = printed("report")
    assert max(kept) < KEPT[0] * 8 / PAGE_BYTES / 4
    assert large > LARGE * 8 / PAGE_BYTES / 2


@keeps_blocks
def test_threads_free_what_they_keep_when_they_end() -> None:
    (grown,) = printed("report_of_threads")
    assert grown < THREADS / 2 * LARGEST_KEPT * 8
