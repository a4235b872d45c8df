"""Runs library functions in kernels: interpreted and compiled, and differentiated."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kernelcore as kc
from tests.helpers import interpreter
from tests.helpers.kernel_harness import run_kernel


def run_both(kernel: Any, args: Sequence[Any], dim: int) -> None:
    """Launch ``kernel``; what it leaves in the arrays must be what the interpreter leaves."""
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with np.errstate(all="ignore"):
        interpreter.run(kernel.func, expected, dim)
    run_kernel(kernel, args, dim)
    for found, want in zip(args, expected, strict=True):
        if isinstance(found, np.ndarray):
            np.testing.assert_array_equal(found, want)


def mapped(function: Callable[..., Any], dtype: Any) -> Any:
    """The kernel that maps ``function``, of one number, over an array."""

    @kc.kernel
    def apply(x: kc.array(dtype=dtype), out: kc.array(dtype=dtype)):
        i = kc.tid()
        out[i] = function(x[i])

    return apply


def slopes(kernel: Any, x: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives of a mapped function at ``x``: of its adjoint, and by central differences.

    ``x`` has one element, or one row of components, per thread.
    """
    count = len(x)

    def values(at: np.ndarray) -> np.ndarray:
        out = np.zeros(count, x.dtype)
        kc.launch(kernel, dim=count, inputs=[at], outputs=[out])
        return out

    found = np.zeros_like(x)
    out = values(x)
    kc.launch(
        kernel,
        dim=count,
        inputs=[x],
        outputs=[out],
        adj_inputs=[found],
        adj_outputs=[np.ones(count, x.dtype)],
        adjoint=True,
    )
    expected = np.zeros_like(x)
    for k in np.ndindex(x.shape[1:]):
        offset = np.zeros_like(x)
        offset[(slice(None), *k)] = step
        expected[(slice(None), *k)] = (values(x + offset) - values(x - offset)) / (2 * step)
    return found, expected
