"""Long chains of values neither overflow the stack nor take for ever."""

from __future__ import annotations

import linecache

import numpy as np

import kernelcore as kc
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.operations import run_operation

LINES = 300


def long_kernel(line: str) -> kc.Kernel:
    """A kernel whose loop body repeats ``line``."""
    body = f"        {line}\n" * LINES
    text = (
        "def long(x: A, y: A):\n    i = kc.tid()\n    j = 1\n    v = x[i]\n"
        f"    for k in range(2):\n{body}    y[(j * 0) + i] = v\n"
    )
    file = f"<{line}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"kc": kc, "A": kc.array(dtype=kc.float64)}
    exec(compile(text, file, "exec"), names)
    return kc.kernel(names["long"])


def test_long_chains_differentiate_twice() -> None:
    op = kernel_operation(long_kernel("v = kc.sin(v) * 1.01"), output_dims="x")
    once = derive.vjp(op, [0], [0]).operation
    twice = derive.vjp(once, [0], [0]).operation
    x, one = np.array([0.3, 0.7]), np.ones(2)
    (gradient,) = run_operation(once, [x, one])
    want = np.ones(2)
    v = x.copy()
    for _ in range(2 * LINES):
        want *= np.cos(v) * 1.01
        v = np.sin(v) * 1.01
    np.testing.assert_allclose(gradient, want, rtol=1e-9)
    assert np.isfinite(run_operation(twice, [x, one, one])[0]).all()


def test_long_chains_of_indices_launch() -> None:
    kernel = long_kernel("j = (j * 3 + 1) % 7")
    x, y = np.ones(2), np.zeros(2)
    kc.launch(kernel, 2, [x], [y])
    np.testing.assert_array_equal(y, x)
