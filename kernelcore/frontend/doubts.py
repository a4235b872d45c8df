"""Warnings of the compiler in debug mode: code that is defined, and probably not what is meant."""

from __future__ import annotations

import warnings

from kernelcore.base.config import config
from kernelcore.base.errors import KernelWarning, SrcLoc, excerpt

_raised = 0


def raised() -> int:
    """How many warnings there were: what had some is not kept on disk, so that each start warns."""
    return _raised


def doubt(message: str, loc: SrcLoc | None, remedy: str) -> None:
    """Warn of the code at ``loc`` if kernels are compiled in debug mode."""
    global _raised
    if config.mode == "debug":
        _raised += 1
        where = f"\n{excerpt(loc)}" if loc else ""
        warnings.warn(f"{message}{where}\n  help: {remedy}", KernelWarning, stacklevel=2)
