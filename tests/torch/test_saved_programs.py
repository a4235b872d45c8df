"""What torch.export saved gives the same bits in a process that did not write it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from tests.torch import saved_program
from tests.torch.saved_program import Model

ROOT = Path(__file__).parents[2]


def test_a_fresh_process_runs_a_saved_program_of_dynamic_size(tmp_path: Path) -> None:
    size = torch.export.Dim("n", min=2)
    example = (torch.ones(8, dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    program = torch.export.export(Model(), example, dynamic_shapes=({0: size}, None))
    torch.export.save(program, tmp_path / "program.pt2")
    for n in (2, 11):
        given = torch.randn(n, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
        torch.save((given, Model()(*given)), tmp_path / f"{n}.pt")
    command = [sys.executable, "-m", saved_program.__name__, str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.split() == ["2", "equal", "11", "equal"]
