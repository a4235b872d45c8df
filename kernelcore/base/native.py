"""The native module, set up once: its errors are kernelcore's."""

from __future__ import annotations

from collections.abc import Callable

from kernelcore import _native
from kernelcore.base.errors import (
    KernelArgumentError,
    KernelAssertionError,
    KernelCompileError,
    KernelDeviceError,
    KernelIndexError,
    KernelMemoryError,
    KernelPlacementError,
)

_native.set_error_types(
    KernelArgumentError,
    KernelPlacementError,
    KernelMemoryError,
    KernelDeviceError,
    KernelCompileError,
    KernelAssertionError,
    KernelIndexError,
)

LaunchDescriptor = _native.LaunchDescriptor
Operation = _native.Operation
TorchDeviceOperation = _native.TorchDeviceOperation
launch = _native.launch
launch_entry = _native.launch_entry
AdjointMemory = _native.AdjointMemory
NativePlan = _native.NativePlan
Span = _native.Span
TapeMemory = _native.TapeMemory
argument_kinds = _native.argument_kinds
array_span = _native.array_span
record_launch = _native.record_launch
replay_launches = _native.replay_launches
set_argument_types = _native.set_argument_types
register_image = _native.register_image
register_kernel = _native.register_kernel
set_resolver = _native.set_resolver
num_threads = _native.num_threads
set_num_threads = _native.set_num_threads
CudaEvent = _native.CudaEvent
CudaGraph = _native.CudaGraph
CudaStream = _native.CudaStream
DeviceBuffer = _native.DeviceBuffer
DeviceKernel = _native.DeviceKernel
cuda_add_branches = _native.cuda_add_branches
cuda_compute_capability = _native.cuda_compute_capability
cuda_copy = _native.cuda_copy
cuda_device_count = _native.cuda_device_count
cuda_device_name = _native.cuda_device_name
cuda_device_of = _native.cuda_device_of
cuda_fill = _native.cuda_fill
cuda_known_devices = _native.cuda_known_devices
cuda_is_open = _native.cuda_is_open
cuda_prepare_branches = _native.cuda_prepare_branches
cuda_synchronize = _native.cuda_synchronize
note_written = _native.note_written
fma = _native.fma
fmaf = _native.fmaf
# Whether a multiplication and an addition are one instruction of this processor.
has_fma: bool = _native.has_fma
# It reads ELF; other systems have other formats.
load_object: Callable[[bytes, str], int] | None = getattr(_native, "load_object", None)
