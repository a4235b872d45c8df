"""Runs kernels over arguments, and tells whoever records."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelcore._native import ArrayMemory
from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelArgumentError, KernelPlacementError
from kernelcore.base.lazy import Deferred
from kernelcore.language.types import ArrayOf, float32
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.described_arrays import held_by
from kernelcore.runtime.device import CPU, Device, device_of_arrays, get_device
from kernelcore.runtime.flatten_arguments import empty_array, leaves
from kernelcore.runtime.hooks import LaunchChecks, capture_sink, observer
from kernelcore.runtime.launch_options import requested
from kernelcore.runtime.stream import current_stream

# Whoever launches has it already; importing it would import the compiler.
if TYPE_CHECKING:
    from kernelcore.launch import infer_types
    from kernelcore.launch.executable import Executable
    from kernelcore.launch.python_mode import run as python_run
else:
    infer_types = Deferred("kernelcore.launch.infer_types")
    python_run = Deferred("kernelcore.launch.python_mode.run")

Dims = int | Sequence[int]


def execute(kernel: Kernel, dim: Dims, args: tuple[Any, ...], *, record: bool = True) -> None:
    """Run ``kernel`` over the grid ``dim``; with ``record``, a Tape that is active records it.

    Raises:
        KernelArgumentError: An argument does not fit the kernel; nothing was run.
    """
    observing = observer.get()
    if isinstance(observing, LaunchChecks):
        observing.check(kernel, dim, args)
        observing = observing.outer
    if not record:
        observing = None
    is_python = config.mode == "python" and (observing is None or observing.has_elements)
    if is_python and not (requested.get().device or CPU).is_cuda:
        # What a Tape records is compiled; Python runs it first, on copies.
        python_run.run(kernel, dim, args, on_copies=observing is not None)
        if observing is None:
            return
    if observing is not None:
        observing.record_launch(kernel, dim, args)
    elif (executable := kernel.plain_executable) is not None:
        submit(executable, dim, args)
    else:
        kernel = kernel.for_arguments(args)
        execute_leaves(kernel, dim, argument_leaves(kernel, args))
        if not kernel.is_plain:
            _count_writes_through(kernel, args)


def _count_writes_through(kernel: Kernel, args: tuple[Any, ...]) -> None:
    """Count a write to the arrays that elements of ``args`` hold, if ``kernel`` may make one."""
    held = [a for a in held_by(args) if isinstance(a, ArrayMemory)]
    if held and kernel.at_addresses.writes:
        for array in held:
            array.mark_write()


def execute_leaves(kernel: Kernel, dim: Dims, args: tuple[Any, ...]) -> None:
    """Run ``kernel``, which is not generic, over its ``argument_leaves``; nobody records it."""
    submit(kernel.executable, dim, args)


def submit(executable: Executable, dim: Dims, args: Sequence[Any]) -> None:
    """Launch over one argument per parameter, or capture the launch.

    It runs on the device that is asked for, else where its arrays are, and without arrays on the
    device that is used where none is given.

    Raises:
        KernelArgumentError: An argument does not fit the kernel; nothing was run.
        KernelDeviceError: The device refuses the launch.
    """
    options = requested.get()
    device = options.device or _device_of(executable, args)
    if device.is_cuda:
        submit_to_device(executable, device, dim, args)
        return
    sink = capture_sink()
    run = native.launch if sink is None else sink.add_launch
    try:
        if not run(executable.signature, dim, args):
            run(executable.serial, dim, args)
    except KernelPlacementError:
        # Nobody has asked for a GPU before.
        gpu = None if options.device else device_of_arrays(args)
        if gpu is None:
            raise
        submit_to_device(executable, gpu, dim, args)


def _device_of(executable: Executable, args: Sequence[Any]) -> Device:
    """The device that ``args`` are on.

    Of a kernel with code for the CPU only, it is that unless a GPU was asked for before.
    """
    if not native.cuda_is_open() and executable.is_on_cpu:
        return CPU
    return device_of_arrays(args) or (CPU if executable.has_arrays else get_device())


def device_of_launch(kernel: Kernel, args: Sequence[Any]) -> Device:
    """Where a launch of ``kernel``, which is not generic, over ``argument_leaves`` is going to run.

    Raises:
        KernelError: The source of the kernel is not in the kernel language.
    """
    options = requested.get()
    if options.device is not None:
        return options.device
    return device_of_arrays(args) or _device_of(kernel.executable, args)


def submit_to_device(
    executable: Executable, device: Device, dim: Dims, args: Sequence[Any]
) -> None:
    """Queue a launch on the GPU ``device``, or capture it.

    Raises:
        KernelArgumentError: An argument does not fit the kernel, or is elsewhere; nothing was run.
        KernelDeviceError: The device refuses the launch.
    """
    options, sink = requested.get(), capture_sink()
    stream = options.stream or current_stream(device)
    queue, sizes = stream.queue, (options.threads, options.max_blocks)
    args = executable.with_values(args, stream, is_kept=sink is not None)
    if sink is not None:
        sink.add_device_launch(executable, device, dim, args, sizes)
        return
    kernel = executable.on_device(device.ordinal)
    if not kernel.launch(queue, dim, args, *sizes):
        executable.on_device(device.ordinal, is_serial=True).launch(queue, dim, args, *sizes)
    if config.verify_cuda:
        queue.synchronize()


def argument_leaves(kernel: Kernel, args: Sequence[Any]) -> tuple[Any, ...]:
    """One object per parameter of the IR: composites and structs are taken apart.

    Raises:
        KernelArgumentError: Another number of arguments, or one that does not fit its type.
    """
    check_count(kernel, len(args))
    if kernel.is_plain:
        return tuple(args)
    found: list[Any] = []
    for parameter, arg in zip(kernel.parameters, args, strict=True):
        assert parameter.type is not None
        try:
            found.extend(leaves(parameter.type, arg, f"argument '{parameter.name}'"))
        except KernelArgumentError as error:
            message = f"{kernel.name}(): {error.message}"
            raise KernelArgumentError(message, parameter.loc, error.remedy) from None
    return tuple(found)


def with_empty_arrays(
    kernel: Kernel, args: Sequence[Any], count: int, device: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """``args`` with arrays without elements for None, where an array is declared, in two parts.

    Args:
        kernel: The kernel; arrays of any elements are of float32.
        args: The arguments.
        count: How many are in the first part.
        device: Where the launch was asked to run, or None.
    """
    found = list(args)
    for k, (parameter, arg) in enumerate(zip(kernel.parameters, args, strict=False)):
        type_ = parameter.wanted if arg is None else None
        if isinstance(type_, ArrayOf) and type_.element is None and not type_.is_flat:
            # Elements that are never read may have any type.
            type_ = replace(type_, element=float32)
        if isinstance(type_, ArrayOf) and not (type_.is_pattern or type_.is_indexed):
            made = empty_array(type_)
            where = device if device is not None else device_of_arrays(args)
            element = type_.element
            found[k] = made if where is None else Array(made, dtype=element, device=where)
    return tuple(found[:count]), tuple(found[count:])


def single_axes(kernel: Kernel, dim: Dims) -> frozenset[int]:
    """The axes on which a launch of ``kernel`` over ``dim`` has at most one point."""
    if isinstance(dim, int) and dim > 1:
        return frozenset()
    try:
        extents = [operator.index(e) for e in ((dim,) if isinstance(dim, int) else dim)]
    except TypeError:
        return frozenset()  # The launch itself says what is wrong.
    # A kernel that does not ask for its index runs over one axis.
    extents = extents if kernel.executable.described.grid_rank else [math.prod(extents)]
    return frozenset(axis for axis, extent in enumerate(extents) if extent <= 1)


def check_count(kernel: Kernel, found: int) -> None:
    """Refuse another number of arguments than ``kernel`` has parameters.

    Raises:
        KernelArgumentError: Naming the kernel.
    """
    if found != len(kernel.parameters):
        text, remedy = infer_types.wrong_count(kernel.name, kernel.parameters, found)
        raise KernelArgumentError(text, kernel.loc, remedy)


def is_element(arg: object) -> bool:
    """Whether ``arg`` is an array without dimensions, which may be passed as a value."""
    return not isinstance(arg, np.generic) and getattr(arg, "ndim", None) == 0
