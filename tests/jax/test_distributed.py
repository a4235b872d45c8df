"""The distributed examples on four processes with two devices each, and what stops them."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kernelcore as kc
from jax_ffi import initialize_distributed
from tests.helpers.environment import ROOT

PROGRAM = [sys.executable, str(ROOT / "examples" / "distributed" / "run.py")]
ENVIRONMENT = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


def start(command: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    both = {**ENVIRONMENT, **environment}
    return subprocess.Popen(command, env=both, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def processes(count: int, program: Sequence[str] = PROGRAM) -> list[subprocess.Popen[str]]:
    """``count`` processes, of mpirun or with what it would tell them."""
    if shutil.which("mpirun"):
        options = ["--allow-run-as-root", "--oversubscribe", "-np", str(count)]
        return [start(["mpirun", *options, *program])]
    job = (os.getpid() % 4096) << 12
    known = {
        "OMPI_MCA_orte_hnp_uri": f"{job}.0;tcp://127.0.0.1:1024",
        "OMPI_COMM_WORLD_SIZE": str(count),
    }
    ranks = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
    return [start(program, **known, **dict.fromkeys(ranks, str(rank))) for rank in range(count)]


def outputs(started: Sequence[subprocess.Popen[str]]) -> list[str]:
    """What ``processes`` print; if one fails, the others are ended, as mpirun does."""

    def output(process: subprocess.Popen[str]) -> str:
        text = process.communicate(timeout=120)[0]
        if process.returncode != 0:
            for other in started:
                other.kill()
        return text

    with ThreadPoolExecutor(len(started)) as threads:
        return list(threads.map(output, started))


def test_examples_agree_with_one_process() -> None:
    started = processes(4)
    texts = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started), "\n".join(texts)
    for name in ("scale", "matmul", "heat"):
        assert f"{name}: 4 processes, 8 devices: equal" in "\n".join(texts)


FAILING = """
import sys
import time
from threading import Thread
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jax_ffi import initialize_distributed
rank, _ = initialize_distributed()
mesh = jax.make_mesh((jax.device_count(),), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.device_put(jnp.ones(jax.device_count()), NamedSharding(mesh, PartitionSpec("i")))
total = jax.jit(jnp.sum)
total(x).block_until_ready()

def fail():
    raise ValueError(f"rank 1 has failed at {time.time()}")

if rank == 1 and sys.argv[1] == "thread":
    thread = Thread(target=fail)
    thread.start()
    thread.join()
elif rank == 1:
    fail()
while True:
    total(x).block_until_ready()
"""


@pytest.mark.parametrize("where", ["main", "thread"])
def test_an_exception_in_one_process_ends_all(where: str) -> None:
    started = processes(2, [sys.executable, "-c", FAILING, where])
    text = "\n".join(outputs(started))
    ended = time.time()
    assert all(process.returncode != 0 for process in started)
    failed = re.search(r"ValueError: rank 1 has failed at ([\d.]+)", text)
    assert failed, text
    assert ended - float(failed[1]) < 10


LOCAL = """
import sys
import jax
import kernelcore as kc
from jax_ffi import device_to_jax, to_jax
address, rank = sys.argv[1], int(sys.argv[2])
jax.distributed.initialize(address, 2, rank)
assert jax.devices("cpu")[0].process_index == 0
device = device_to_jax("cpu")
assert to_jax(kc.ones(3)).devices() == {device}
print(rank, device.process_index)
"""


def test_every_process_converts_to_devices_of_its_own() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    ranks = ("0", "1")
    started = [start([sys.executable, "-c", LOCAL, address, rank]) for rank in ranks]
    texts = [process.communicate(timeout=120)[0] for process in started]
    for rank, text in zip(ranks, texts, strict=True):
        assert f"{rank} {rank}" in text.splitlines(), text


def test_a_process_that_mpirun_did_not_start_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("OMPI_COMM_WORLD_SIZE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(kc.KernelArgumentError, match=r"Open MPI is not installed[^$]*openmpi-bin"):
        initialize_distributed()
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\n")
    mpirun.chmod(0o755)
    with pytest.raises(kc.KernelArgumentError, match=r"was not started by mpirun[^$]*-np 2"):
        initialize_distributed()
