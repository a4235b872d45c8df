"""The native module, set up once: its errors are kernelcore's."""

from __future__ import annotations

from collections.abc import Callable

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
AdjointMemory = _native.AdjointMemory
QuickPlan = _native.QuickPlan
Span = _native.Span
TapeMemory = _native.TapeMemory
argument_kinds = _native.argument_kinds
array_span = _native.array_span
clear_gradients = _native.clear_gradients
record_launch = _native.record_launch
replay_launches = _native.replay_launches
set_argument_types = _native.set_argument_types
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
