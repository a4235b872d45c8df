"""The error for kernels that nest deeper than Python lets the compiler recurse."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from kernelcore.base.errors import KernelSyntaxError, SrcLoc


@contextmanager
def refusing_deep_nesting(name: str, loc: SrcLoc | None) -> Generator[None]:
    """Compile the kernel ``name``, which is defined at ``loc``, inside.

    Raises:
        KernelSyntaxError: Expressions, branches or calls are nested too deeply.
    """
    try:
        yield
    except RecursionError:
        raise KernelSyntaxError(
            f"{name} is nested too deeply for Python's limit of recursion",
            loc,
            "split long expressions, long chains of branches (read a table instead) and long "
            "chains of calls",
        ) from None
