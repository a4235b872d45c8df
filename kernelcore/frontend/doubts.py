"""Warnings of the compiler in debug mode: code that is defined, and probably not what is meant."""

from __future__ import annotations

import warnings

from kernelcore.base.config import config
from kernelcore.base.errors import KernelWarning, SrcLoc, excerpt


def doubt(message: str, loc: SrcLoc | None, remedy: str) -> None:
    """Warn of the code at ``loc`` if kernels are compiled in debug mode."""
    if config.mode == "debug":
        where = f"\n{excerpt(loc)}" if loc else ""
        warnings.warn(f"{message}{where}\n  help: {remedy}", KernelWarning, stacklevel=2)
