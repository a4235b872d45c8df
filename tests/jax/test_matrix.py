"""A slice of the matrix of kernels and transformations; ``make test-jax-matrix`` runs all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.paths import ROOT

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
