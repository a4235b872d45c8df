"""Runs kernels in the interpreter and on the device of the suite, which give the same bits."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.ir.verify import verify
from kernelcore.launch.dispatch import argument_leaves
from tests.helpers import interpreter
from tests.helpers.kernel_harness import run_kernel


def run_both(kernel: kc.Kernel, dim: int | Sequence[int], args: Sequence[Any]) -> list[Any]:
    """``args`` after a launch; after interpretation they are the same bits."""
    kernel = kernel.for_arguments(args)
    verify(kernel.func)
    interpreted = copy.deepcopy(list(args))
    interpreter.run(kernel.func, argument_leaves(kernel, interpreted), dim)
    launched = copy.deepcopy(list(args))
    run_kernel(kernel, launched, dim)
    # Leaf by leaf, since what lies between the fields of a struct is nobody's.
    rows = (argument_leaves(kernel, args) for args in (launched, interpreted))
    for found, want in zip(*rows, strict=True):
        if isinstance(found, np.ndarray):
            assert found.tobytes() == want.tobytes(), f"{found}\n{want}"
    return launched


def agree(kernel: kc.Kernel, dim: int | Sequence[int], args: Sequence[Any]) -> list[Any]:
    """``args`` after a launch; the interpreter and Python mode give the same."""
    found = run_both(kernel, dim, args)
    python = copy.deepcopy(list(args))
    with kc.python_mode():
        kc.launch(kernel, dim, python)
    for one, other in zip(found, python, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
    return found
