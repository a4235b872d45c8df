"""The native module, set up once: its errors are kernelcore's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from kernelcore import _native
from kernelcore.errors import (
    KernelArgumentError,
    KernelAssertionError,
    KernelCompileError,
    KernelIndexError,
    KernelMemoryError,
)

_native.set_error_types(
    KernelArgumentError,
    KernelMemoryError,
    KernelCompileError,
    KernelAssertionError,
    KernelIndexError,
)

Signature = _native.Signature
launch = _native.launch
launch_parts = _native.launch_parts
register_kernel = _native.register_kernel
set_resolver = _native.set_resolver
num_threads = _native.num_threads
set_num_threads = _native.set_num_threads
fma = _native.fma
fmaf = _native.fmaf
# Whether a multiplication and an addition are one instruction of this processor.
has_fma: bool = _native.has_fma
# It reads ELF; other systems have other formats.
load_object: Callable[[bytes, str], int] | None = getattr(_native, "load_object", None)


class Span(NamedTuple):
    """The memory of an array: first address, address past the end, shape and strides.

    ``is_distinct`` says that no two indices reach the same element.
    """

    begin: int
    end: int
    shape: tuple[int, ...]
    stride_bytes: tuple[int, ...]
    item_bytes: int
    is_distinct: bool

    def overlaps(self, other: Span) -> bool:
        """Whether the two may have an element in common; not where they interleave."""
        if self.begin >= other.end or other.begin >= self.end:
            return False
        (mine, my_strides), (theirs, their_strides) = self._blocks(), other._blocks()
        period = math.gcd(*my_strides, *their_strides)
        if period == 0:
            return True
        # Both repeat with the period: their blocks are apart if they are within one turn.
        distance = (other.begin - self.begin) % period
        return distance < mine or distance + theirs > period

    def _blocks(self) -> tuple[int, list[int]]:
        """The size of blocks of adjacent elements, and the strides from block to block."""
        size = self.item_bytes
        axes = zip(self.stride_bytes, self.shape, strict=True)
        left = sorted((abs(stride), extent) for stride, extent in axes if extent > 1)
        while left and left[0][0] == size:
            size *= left.pop(0)[1]
        return size, [stride for stride, _ in left]


def array_span(signature: Signature, index: int, array: object) -> Span:
    """The memory of the array for parameter ``index``.

    Raises:
        KernelArgumentError: It is no array that the parameter takes.
    """
    return Span(*_native.array_span(signature, index, array))
