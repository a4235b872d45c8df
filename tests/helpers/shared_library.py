"""Compiles C++ of the tests, once per text for all processes and runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernelcore.codegen.snippet.toolchain import find_compiler
from tests.helpers.environment import ROOT


def build_library(
    sources: Sequence[Path], flags: Sequence[str] = (), headers: Iterable[Path] = ()
) -> Path:
    """The shared library of ``sources`` in ``build``; what ``headers`` hold is part of its name."""
    texts = [path.read_bytes() for path in (*sources, *sorted(headers))]
    digest = hashlib.sha256(b"\0".join(texts) + " ".join(flags).encode()).hexdigest()[:16]
    path = ROOT / "build" / f"{sources[0].stem}_{digest}.so"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}.so")
        command = [*find_compiler("the tests"), "-std=c++20", "-shared", "-fPIC", *flags]
        subprocess.run([*command, *map(str, sources), "-o", str(made)], check=True)
        made.replace(path)
    return path
