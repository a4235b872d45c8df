"""Eager programs do not wait for the import of torch.compile, and torch may be imported late."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.environment import ROOT

PROGRAM = """
import sys

import torch

import kernelcore as kc
from torch_ext import torch_callable, torch_op

Floats = kc.array(dtype=float)


@kc.kernel
def square(x: Floats, a: float, y: Floats):
    i = kc.tid()
    y[i] = a * x[i] * x[i]


@kc.kernel
def update(x: Floats, state: Floats):
    i = kc.tid()
    state[i] = state[i] + x[i]


def launches(x: Floats, y: Floats):
    kc.launch(square, x.shape, [x, 3.0], [y])


op, x = torch_op(square), torch.tensor([1.0, 2.0], requires_grad=True)
assert op(x.detach(), 2.0).tolist() == [2.0, 8.0]
(gradient,) = torch.autograd.grad(op(x, 2.0).sum(), x, create_graph=True)
gradient.sum().backward()
assert x.grad.tolist() == [4.0, 4.0]
assert torch.vmap(op, (0, None))(torch.ones(3, 2), 2.0).sum() == 12.0
state = torch.ones(2)
torch_op(update, mutates=["state"])(torch.ones(2), state)
assert state.tolist() == [2.0, 2.0]
torch_callable(launches)(x).sum().backward()
torch_op(square, "eager_imports::square")(x, torch.tensor(2.0)).sum().backward()
assert x.grad.tolist() == [14.0, 24.0], x.grad
print(sorted(m for m in sys.modules if m in ("torch._dynamo", "torch._inductor")))
"""

LATE_IMPORT = """
import numpy as np

import kernelcore as kc


@kc.op
@kc.kernel
def double(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = 2.0 * x[i]


assert double(np.ones(2, np.float32)).tolist() == [2.0, 2.0]

import torch


# Torch traces it again up to the break.
def broken(x):
    y = double(x)
    torch._dynamo.graph_break()
    return y + 1.0


# This is the first call with tensors.
assert torch.compile(broken, backend="aot_eager")(torch.ones(2)).tolist() == [3.0, 3.0]
compiled = torch.compile(double, backend="aot_eager", fullgraph=True)
x = torch.ones(3, requires_grad=True)
compiled(x).sum().backward()
assert x.grad.tolist() == [2.0] * 3
assert compiled(torch.arange(2.0)).tolist() == double(torch.arange(2.0)).tolist() == [0.0, 2.0]
"""


def test_operators_made_before_torch_is_imported_are_compiled(tmp_path: Path) -> None:
    assert printed_by(LATE_IMPORT, tmp_path) == ""


def test_eager_calls_and_their_derivatives_do_not_import_dynamo(tmp_path: Path) -> None:
    assert printed_by(PROGRAM, tmp_path) == "[]"


def printed_by(text: str, directory: Path) -> str:
    """What a new process prints that runs the program ``text``."""
    program = directory / "program.py"
    program.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
