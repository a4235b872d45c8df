"""The names of the native module, which raises kernelcore's errors once this is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable

try:
    from kernelcore import _native
except ImportError as error:
    raise ImportError(
        f"kernelcore's native module is missing for Python {sys.version.split()[0]} ({error})\n"
        "  help: install kernelcore with pip; in a clone, 'make native' builds the module"
    ) from error
from kernelcore._native import *  # noqa: F403
from kernelcore.base.errors import (
    KernelArgumentError,
    KernelAssertionError,
    KernelCompileError,
    KernelDeviceError,
    KernelError,
    KernelFiniteError,
    KernelIndexError,
    KernelMemoryError,
    KernelPlacementError,
)

# Free-threaded Python enables the GIL for a module that does not declare that it works without it,
# unless the user forbids that. Native caches and reference counts rely on the GIL.
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise KernelError(
        "kernelcore needs Python's global interpreter lock, found one that is disabled",
        remedy="unset PYTHON_GIL, and leave out the option -X gil=0",
    )

# In the order of ErrorKind: an unknown kernel and a defect of kernelcore come last.
_native.set_error_types(
    (
        KernelArgumentError,
        KernelMemoryError,
        KernelDeviceError,
        KernelPlacementError,
        KernelAssertionError,
        KernelIndexError,
        KernelFiniteError,
        KeyboardInterrupt,
        KernelCompileError,
        KernelCompileError,
    )
)

# It reads ELF for x86-64; LLVM's linker loads what others have.
load_object: Callable[[bytes, str], int] | None = getattr(_native, "load_object", None)
