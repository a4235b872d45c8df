"""Operators of elementwise kernels keep tensors sharded, with the same gradient."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


def torchrun(count: int, *program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``program`` on ``count`` ranks of torchrun."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*command, f"--nproc-per-node={count}", *program],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_two_ranks_share_nothing_but_sums() -> None:
    ran = torchrun(2, "-m", "tests.torch.distributed_program")
    assert ran.returncode == 0, ran.stderr[-4000:]
    for rank in (0, 1):
        assert f"rank {rank} is done" in ran.stdout


@pytest.mark.parametrize("count", [2, 4])
def test_ranks_exchange_borders_and_know_their_first_index(count: int) -> None:
    ran = torchrun(count, "-m", "tests.torch.sharded_program")
    assert ran.returncode == 0, ran.stderr[-4000:]
    for rank in range(count):
        assert f"rank {rank} is done" in ran.stdout


def test_graphs_of_a_warm_cache_serve_every_rank(tmp_path: Path) -> None:
    program = ("-m", "tests.torch.sharded_program", "inductor")
    for count in (0, 1):
        ran = torchrun(2, *program, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
        assert ran.returncode == 0, ran.stderr[-4000:]
        hits = [int(n) for n in re.findall(r"took (\d+) graphs from the cache", ran.stdout)]
        assert len(hits) == 2
        assert min(hits) >= count


FAILING = """
import time
import torch
import torch.distributed as dist
from tests.torch import torch_kernels as k
from torch_ext import torch_op
dist.init_process_group("gloo")
total = torch_op(k.energy, output_dims=1)(torch.ones(4, dtype=torch.float64))
dist.all_reduce(total)
if dist.get_rank() == 1:
    print("failed at", time.time(), flush=True)
    raise ValueError("rank 1 has failed")
while True:
    dist.all_reduce(total)
"""


def test_an_exception_in_one_rank_ends_all(tmp_path: Path) -> None:
    program = tmp_path / "failing.py"
    program.write_text(FAILING)
    ran = torchrun(2, str(program))
    ended = time.time()
    assert ran.returncode != 0
    assert "ValueError: rank 1 has failed" in ran.stderr
    failed = re.search(r"failed at ([\d.]+)", ran.stdout)
    assert failed, ran.stderr[-4000:]
    assert ended - float(failed[1]) < 10
