"""NVIDIA's assembler."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from functools import cache
from pathlib import Path


@cache
def assembler() -> str:
    """The path of ``ptxas``: on PATH, else that of the package nvidia-cuda-nvcc."""
    found = shutil.which("ptxas")
    if found is not None:
        return found
    packages = Path(sysconfig.get_paths()["platlib"])
    return str(next(packages.glob("nvidia/cu*/bin/ptxas")))


def assemble(text: str, architecture: str) -> None:
    """Assemble PTX, and throw the result away."""
    command = [assembler(), f"-arch={architecture}", "-o", "/dev/null", "/dev/stdin"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
