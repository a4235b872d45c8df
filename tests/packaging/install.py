"""Installs the wheels of a folder in fresh environments and runs a program in each.

``python tests/packaging/install.py FOLDER`` takes every interpreter of ``PYTHONS`` that is on the
path: first with NumPy alone, then with one framework after the other. It needs no package itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHONS = ("python3.11", "python3.12", "python3.13")
# What each environment adds. Other builds of torch and Paddle bring gigabytes of CUDA along.
FRAMEWORKS = {
    "numpy": (),
    "torch": ("torch==2.13.0",),
    "jax": ("jax", "flatbuffers"),
    "paddle": ("paddlepaddle==3.3.1",),
}
HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", action="append", help="these interpreters only")
    parser.add_argument("--framework", action="append", choices=FRAMEWORKS)
    options = parser.parse_args()
    pythons = options.python or [name for name in PYTHONS if shutil.which(name)]
    if not pythons:
        print(f"expected one of {', '.join(PYTHONS)} on the path, found none", file=sys.stderr)
        return 2
    wrong = [
        f"{python} with {framework}"
        for python in pythons
        for framework in options.framework or FRAMEWORKS
        if not _works(python, framework, options.folder.resolve())
    ]
    print("failed: " + ", ".join(wrong) if wrong else "every wheel works")
    return len(wrong) > 0


def _works(python: str, framework: str, folder: Path) -> bool:
    """Whether a program of ``framework`` runs on the installed wheel, outside of the sources."""
    with tempfile.TemporaryDirectory() as work:
        venv = Path(work, "venv")
        subprocess.run([python, "-m", "venv", str(venv)], check=True)
        pip = (str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet")
        for package in FRAMEWORKS[framework]:
            subprocess.run([*pip, package], check=True)
        extra = "" if framework == "numpy" else f"[{framework}]"
        # The newest wheel that fits this interpreter, and its dependencies from the package index.
        wanted = f"kernelcore{extra}"
        subprocess.run([*pip, "--find-links", str(folder), "--pre", wanted], check=True)
        program = shutil.copy(HERE / f"smoke_{framework}.py", work)
        done = subprocess.run(
            [str(venv / "bin" / "python"), str(program)],
            cwd=work,
            env={**os.environ, "KC_CACHE_DIR": str(Path(work, "cache"))},
            capture_output=True,
            text=True,
        )
        says = done.stdout.strip() if done.returncode == 0 else done.stderr
        print(f"{python} with {framework}: {says}", flush=True)
        return done.returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
