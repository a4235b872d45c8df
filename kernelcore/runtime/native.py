"""The native module, set up once: its errors are kernelcore's."""

from __future__ import annotations

from typing import NamedTuple

from kernelcore import _native
from kernelcore.errors import (
    KernelArgumentError,
    KernelAssertionError,
    KernelCompileError,
    KernelMemoryError,
)

_native.set_error_types(
    KernelArgumentError, KernelMemoryError, KernelCompileError, KernelAssertionError
)

Signature = _native.Signature
launch = _native.launch
register_kernel = _native.register_kernel
set_resolver = _native.set_resolver
num_threads = _native.num_threads
set_num_threads = _native.set_num_threads


class Span(NamedTuple):
    """The memory of an array: first address, address past the end, and shape.

    ``is_distinct`` says that no two indices reach the same element.
    """

    begin: int
    end: int
    shape: tuple[int, ...]
    is_distinct: bool

    def overlaps(self, other: Span) -> bool:
        """Whether the two may have an element in common."""
        return self.begin < other.end and other.begin < self.end


def array_span(signature: Signature, index: int, array: object) -> Span:
    """The memory of the array for parameter ``index``.

    Raises:
        KernelArgumentError: It is no array that the parameter takes.
    """
    return Span(*_native.array_span(signature, index, array))
