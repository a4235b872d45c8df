"""What torch.export saved gives the same bits in a process that did not write it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import kernelcore as kc
from tests.helpers.environment import ROOT
from tests.torch import saved_program
from tests.torch import torch_kernels as k
from tests.torch.saved_program import Model, derivatives
from torch_ext import torch_op

quadratic = torch_op(k.quadratic)


def test_a_fresh_process_runs_a_saved_program_of_dynamic_size(tmp_path: Path) -> None:
    size = torch.export.Dim("n", min=2)
    example = (torch.ones(8, dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    program = torch.export.export(Model(), example, dynamic_shapes=({0: size}, None))
    torch.export.save(program, tmp_path / "program.pt2")
    for n in (2, 11):
        given = torch.randn(n, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
        torch.save((given, Model()(*given)), tmp_path / f"{n}.pt")
    assert words_of("run", tmp_path) == ["2", "equal", "11", "equal"]


def test_a_fresh_process_differentiates_a_saved_program(tmp_path: Path) -> None:
    given = torch.randn(7, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    torch.export.save(torch.export.export(Model(), given), tmp_path / "program.pt2")
    torch.save((given, derivatives(Model(), *given)), tmp_path / "derivatives.pt")
    assert words_of("derive", tmp_path) == ["equal"] * 4


def words_of(task: str, folder: Path) -> list[str]:
    """What a fresh process prints of the program in ``folder``."""
    command = [sys.executable, "-m", saved_program.__name__, task, str(folder)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stdout.split()


class Gradient(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.gradient: Callable[..., Any] = torch.func.grad(lambda x: function(x).sum())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gradient(x)


def test_gradients_are_traced_before_they_are_exported() -> None:
    x = torch.arange(4, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="doesn't have storage"):  # So it is with torch's own.
        torch.export.export(Gradient(lambda x: k.quadratic_torch(x, 2.0)), (x,)).module()(x)
    model = Gradient(lambda x: quadratic(x, 2.0))
    with pytest.raises(kc.KernelGradError, match=r"help: .*make_fx"):
        torch.export.export(model, (x,))
    exported = torch.export.export(make_fx(model)(x), (x,))
    torch.testing.assert_close(exported.module()(x + 1.0), 4.0 * (x + 1.0))


KERNELS = """
import kernelcore as kc

@kc.op
@kc.kernel
def tripled(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = 3.0 * x[i]
"""
SAVE = """
import torch
from kernels import tripled

class Model(torch.nn.Module):
    def forward(self, x):
        return tripled(x)

program = torch.export.export(Model(), (torch.ones(2),))
torch.export.save(program, "program.pt2")
"""
LOAD = """
import importlib.util, sys
for name in sys.argv[1:]:
    importlib.util.find_spec("torch")  # As libraries do that work without torch, too.
    __import__(name)
import torch
print(torch.export.load("program.pt2").module()(torch.ones(2)).tolist())
"""


def test_importing_the_module_of_an_operator_is_enough(tmp_path: Path) -> None:
    def printed(text: str, *args: str) -> str:
        command = [sys.executable, "-c", text, *args]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr[-4000:]
        return ran.stdout

    (tmp_path / "kernels.py").write_text(KERNELS)
    assert printed(SAVE) == ""
    for order in (("torch", "kernels"), ("kernels", "torch")):
        assert printed(LOAD, *order) == "[3.0, 3.0]\n"
