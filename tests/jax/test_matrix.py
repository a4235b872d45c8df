"""Slices of the matrix and of the tests with JAX's internal checks on and several devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.environment import ROOT

HERE = Path(__file__).parent


def test_kernels_agree_with_pure_jax_under_every_transformation() -> None:
    environment = {
        **os.environ,
        "JAX_ENABLE_CHECKS": "1",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rN"]
    done = subprocess.run(
        [*command, str(HERE / "matrix_cases.py")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


SLICE = "jit and (hessian or scan or nested or checkpoint or linear)"


def test_internal_checks_and_several_devices() -> None:
    environment = {
        **os.environ,
        "JAX_ENABLE_CHECKS": "1",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
    }
    files = [
        str(HERE / name)
        for name in ("test_transforms.py", "sharding_cases.py", "sharding_table.py")
    ]
    chosen = f"sharding_cases or sharding_table or ({SLICE})"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", chosen],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
