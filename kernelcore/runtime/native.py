"""The native module, set up once: its errors are kernelcore's."""

from __future__ import annotations

from kernelcore import _native
from kernelcore.errors import KernelArgumentError, KernelCompileError, KernelMemoryError

_native.set_error_types(KernelArgumentError, KernelMemoryError, KernelCompileError)

Signature = _native.Signature
launch = _native.launch
register_kernel = _native.register_kernel
set_resolver = _native.set_resolver
num_threads = _native.num_threads
set_num_threads = _native.set_num_threads


def array_span(signature: Signature, index: int, array: object) -> tuple[int, int, tuple[int, ...]]:
    """First address, address past the end, and shape of the array for parameter ``index``.

    Raises:
        KernelArgumentError: It is no array that the parameter takes.
    """
    return _native.array_span(signature, index, array)
