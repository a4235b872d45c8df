"""Libraries are imported in any order, and kernelcore alone imports none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Of every two libraries, each comes first in one of the orders.
ORDERS = (("kernelcore", "torch", "jax", "paddle"), ("paddle", "jax", "torch", "kernelcore"))

USE = """
import kernelcore as kc, jax.numpy as jnp, numpy as np, paddle, torch
for make in (torch.ones, jnp.ones, lambda n: paddle.ones([n]), lambda n: np.ones(n, np.float32)):
    array = kc.array(make(3), copy=False)
    assert array.list() == [1.0, 1.0, 1.0]
assert torch.from_dlpack(kc.ones(2)).sum() == 2.0
assert kc.from_torch is not kc.from_paddle
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_every_order_works(order: tuple[str, ...]) -> None:
    run("\n".join(f"import {name}" for name in order) + USE)


def test_kernelcore_alone_imports_no_framework_and_no_compiler() -> None:
    code = (
        "import sys, kernelcore as kc\n"
        "array = kc.zeros(3); kc.from_numpy(array.numpy()); kc.from_dlpack(array)\n"
        "names = {'torch', 'jax', 'paddle', 'llvmlite', 'torch_ext', 'jax_ffi', 'paddle_ext'}\n"
        "print(sorted(names & set(sys.modules)))"
    )
    assert run(code) == "[]\n"
