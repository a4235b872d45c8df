"""Operators of elementwise kernels keep tensors sharded, with the same gradient."""

from __future__ import annotations

import subprocess
import sys

from kernelcore.launch.kernel import Kernel
from kernelcore.passes.access.elementwise import Part, parts
from tests.helpers import composites
from tests.helpers.environment import ROOT
from tests.torch import torch_kernels as k


def of(kernel: Kernel) -> tuple[Part, ...] | None:
    return parts(kernel.func)


def test_operands_that_parts_of_a_grid_need() -> None:
    assert of(k.blend) == (Part.OWN,) * 3
    assert of(k.quadratic) == (Part.OWN, Part.ALL, Part.OWN)
    assert of(k.energy) == (Part.OWN, Part.SUM)
    assert of(k.grow) == (Part.OWN, Part.OWN)
    assert of(composites.cross()) == (Part.ALL, Part.ALL, Part.OWN, Part.OWN)
    assert of(k.take) == (Part.ALL, Part.OWN, Part.ALL, Part.ALL, Part.OWN)
    for kernel in (k.neighbours, k.product, k.powers):
        assert of(kernel) is None


def test_two_ranks_share_nothing_but_sums() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    ran = subprocess.run(
        [*command, "-m", "tests.torch.distributed_program"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    for rank in (0, 1):
        assert f"rank {rank} is done" in ran.stdout
