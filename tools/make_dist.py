"""Makes an sdist and, from it, wheels that run on every Linux with glibc 2.28.

``python tools/make_dist.py FOLDER`` needs the packages of the extra ``dist`` and interpreters of
Python 3.11 and 3.12 on the path. The compiler of Zig links against the symbols of an old glibc and
brings its own C++ library, so that no old system is needed to build on.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The first has its own wheel; that of the second has the stable ABI and serves all newer ones.
PYTHONS = ("python3.11", "python3.12")
GLIBC = "2.28"
PLATFORM = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
# The native module is half of a wheel; tests are most of the sdist.
MAX_WHEEL_BYTES = 2_500_000
MAX_SDIST_BYTES = 4_000_000


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--requirements", action="store_true", help="print the packages it needs")
    options = parser.parse_args()
    if options.requirements:
        print(*_requirements())
        return 0
    folder = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    sdist = _make_sdist(folder)
    wheels = [_make_wheel(sdist, folder, python) for python in PYTHONS]
    _run(sys.executable, "-m", "twine", "check", "--strict", sdist, *wheels)
    for made, most in ((sdist, MAX_SDIST_BYTES), *((w, MAX_WHEEL_BYTES) for w in wheels)):
        size_bytes = made.stat().st_size
        print(f"{made.name}: {size_bytes:,} bytes")
        if size_bytes > most:
            print(f"expected at most {most:,} bytes", file=sys.stderr)
            return 1
    return 0


def _requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"]["dist"]


def _make_sdist(folder: Path) -> Path:
    _run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)
    (made,) = folder.glob("*.tar.gz")
    return made


def _make_wheel(sdist: Path, folder: Path, python: str) -> Path:
    """A wheel of ``python`` whose symbols ``auditwheel`` finds in glibc's old version."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        with tarfile.open(sdist) as archive:
            archive.extractall(work, filter="data")
        (source,) = work.iterdir()
        compilers = _compilers(work / "compilers")
        # The build's own environment has the headers of the interpreter that it is for.
        _run(python, "-m", "venv", work / "venv")
        builder = work / "venv" / "bin" / "python"
        _run(builder, "-m", "pip", "install", "--quiet", *_requirements())
        tools = str(builder.parent)
        environment = {**os.environ, **compilers, "PATH": f"{tools}:{os.environ['PATH']}"}
        build = (builder, "-m", "build", "--wheel", "--no-isolation", "--outdir", work / "made")
        _run(*build, source, environment=environment)
        (built,) = (work / "made").glob("*.whl")
        repair = (builder, "-m", "auditwheel", "repair", "--only-plat", "--plat", PLATFORM)
        _run(*repair, "--wheel-dir", work / "fixed", built, environment=environment)
        (fixed,) = (work / "fixed").glob("*.whl")
        _check_contents(fixed)
        return Path(shutil.copy2(fixed, folder))


def _compilers(folder: Path) -> dict[str, str]:
    """CC and CXX, programs that run Zig's compilers for the old glibc."""
    folder.mkdir()
    found: dict[str, str] = {}
    for variable, name in (("CC", "cc"), ("CXX", "c++")):
        program = folder / f"zig-{name}"
        target = f"x86_64-linux-gnu.{GLIBC}"
        program.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {name} -target {target} "$@"\n'
        )
        program.chmod(0o755)
        found[variable] = str(program)
    return found


def _check_contents(wheel: Path) -> None:
    """What type checkers read is there, and nothing of the tests."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    packages = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {"kernelcore", "torch_ext", "jax_ffi", "paddle_ext"}, packages
    for package in packages:
        assert f"{package}/py.typed" in names, package
    assert {"kernelcore/__init__.pyi", "kernelcore/_native.pyi"} <= {*names}


def _run(*command: object, environment: dict[str, str] | None = None) -> None:
    subprocess.run([str(part) for part in command], check=True, env=environment)


if __name__ == "__main__":
    raise SystemExit(main())
