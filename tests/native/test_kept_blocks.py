"""Threads keep the large blocks that kernels allocate, from one launch to the next."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import os
import resource
import subprocess
import sys

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


@kc.kernel
def power(x: kc.array(dtype=kc.float64), n: int, y: kc.array(dtype=kc.float64)):
    """Its adjoint records 8 bytes for a step, in each lane of a gang."""
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


def report() -> None:
    kc.set_num_threads(1)
    print(*(faults(steps) for steps in (*KEPT, LARGE)))
    assert gradient(3) == 15.0


@pytest.mark.skipif(native.load_object is None, reason="LLVM's linker loads objects here")
def test_launches_have_the_pages_of_the_launch_before() -> None:
    command = [sys.executable, "-c", f"from {__name__} import report; report()"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=os.environ | EAGER
    )
    assert (done.returncode, done.stderr) == (0, "")
    *kept, large = map(float, done.stdout.split())
    assert max(kept) < KEPT[0] * 8 / PAGE_BYTES / 4
    assert large > LARGE * 8 / PAGE_BYTES / 2
