"""Slices of the matrix and of the tests with JAX's internal checks on and several devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.environment import ROOT

HERE = Path(__file__).parent
PLUGINS = ("-p", "no:cacheprovider", "-p", "no:benchmark")


def test_kernels_agree_with_pure_jax_under_every_transformation() -> None:
    run_on_devices(2, "matrix_cases.py")


SLICE = "jit and (hessian or scan or nested or checkpoint or linear)"


def test_internal_checks_and_several_devices() -> None:
    files = ("test_transforms.py", "sharding_cases.py")
    run_on_devices(4, *files, "-k", f"sharding_cases or ({SLICE})")


def test_collectives_of_plain_jit() -> None:
    run_on_devices(8, "sharding_table.py")


def run_on_devices(count: int, *arguments: str) -> None:
    """Run tests of this folder with JAX's internal checks and ``count`` devices of the CPU.

    The plugin for benchmarks, where there is one, warns of xdist, and warnings are errors.
    """
    environment = {
        **os.environ,
        "JAX_ENABLE_CHECKS": "1",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}",
    }
    given = [str(HERE / a) if a.endswith(".py") else a for a in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGINS, "-rN", *given],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
