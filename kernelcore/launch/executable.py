"""What a kernel becomes when it is needed: parameters, IR, machine code, adjoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.errors import KernelSyntaxError, SrcLoc
from kernelcore.compiler.launch_descriptor import Binding, Role, describe, make_signature
from kernelcore.compiler.native_code import Compiled, compile_func
from kernelcore.compiler.ptx_code import DeviceCode, architecture_of, device_code
from kernelcore.compiler.recall import Entry, Recalled
from kernelcore.frontend.parameters import kernel_parameters
from kernelcore.frontend.source import read_source
from kernelcore.ir.core import Func
from kernelcore.language.types import ArrayType, SourceType
from kernelcore.launch.infer_types import Parameter
from kernelcore.passes.access.accumulation_plan import unplanned
from kernelcore.passes.access.effects import effects
from kernelcore.runtime.device import Device, cuda_device
from kernelcore.runtime.device_memory import on_device
from kernelcore.runtime.stream import Stream, current_stream


def name_loc(pyfunc: Callable[..., Any]) -> SrcLoc | None:
    """Where the name of ``pyfunc`` is defined; None where its file has it no more."""
    try:
        return read_source(pyfunc).name_loc()
    except KernelSyntaxError:
        return None


def parameters(
    pyfunc: Callable[..., Any], types: tuple[SourceType, ...] | None
) -> tuple[Parameter, ...]:
    """The parameters of the kernel ``pyfunc``, of ``types`` if they are given.

    Raises:
        KernelError: An annotation is not in the kernel language.
    """
    found = tuple(Parameter(*row) for row in kernel_parameters(pyfunc))
    if types is None:
        return found
    return tuple(replace(p, wanted=type_) for p, type_ in zip(found, types, strict=True))


@dataclass(frozen=True, slots=True)
class CachedGpuLaunch:
    """Launches of a kernel on a GPU that ask for nothing but that.

    Attributes:
        kernel: The kernel as devices of its kind run it.
        device: The GPU that has the arrays.
        is_deterministic: What ``config`` said when it was made.
    """

    kernel: native.DeviceKernel
    device: Device
    is_deterministic: bool

    def run(self, dim: int | Sequence[int], args: Sequence[Any]) -> bool:
        """Queue a launch in the stream in use; False, and nothing was done, if it asks for more.

        Raises:
            KernelArgumentError: An argument does not fit the kernel, or is elsewhere.
        """
        if config.verify_cuda or config.deterministic != self.is_deterministic:
            return False
        return self.kernel.launch(current_stream(self.device).queue, dim, args, config.block_dim)


class Executable:
    """A kernel over arrays that the caller provides.

    Args:
        make: Makes the kernel, ready for code generation. It is asked at once unless the disk
            cache knows what launches ask for.
        entry: Says where the disk cache keeps that, of the kernel as it is known so far.

    Raises:
        KernelError: The kernel cannot be made.
    """

    def __init__(
        self, make: Callable[[], Func], entry: Callable[[], Entry | None] = lambda: None
    ) -> None:
        self._make = make
        self._entry = entry
        known = entry()
        self._recalled = None if known is None else known.load()
        self._device_kernels: dict[tuple[str, bool, bool], native.DeviceKernel] = {}
        if self._recalled is None:
            _ = self._func

    @cached_property
    def _func(self) -> Func:
        return self._make()

    @cached_property
    def signature(self) -> native.LaunchDescriptor:
        """The kernel as native launchers take it, for arrays that do not share memory.

        That is, where it adds to them.
        """
        recalled = self._recalled
        if recalled and self._entry() and (known := recalled.signature()):
            return known
        compiled = compile_func(self._func)
        described = describe(self._func, compiled, _bindings(self._func))
        if entry := self._entry():
            entry.store(Recalled(compiled.key, self.has_arrays, described))
        return described.signature(compiled.key, compiled.address)

    @property
    def is_on_cpu(self) -> bool:
        """Whether there is code for the CPU, and none for a GPU."""
        return "signature" in self.__dict__ and not self._device_kernels

    @cached_property
    def serial(self) -> native.LaunchDescriptor:
        """The kernel for arrays that share memory: one thread runs its points in order."""
        func = unplanned(self._func)
        return _signature(func, compile_func(func), is_serial=True)

    def on_device(self, ordinal: int, *, is_serial: bool = False) -> native.DeviceKernel:
        """As ``signature`` or ``serial``, for CUDA device ``ordinal``.

        Raises:
            KernelCompileError: The kernel has what GPUs have no code for.
            KernelDeviceError: There is no such device.
        """
        wanted = architecture_of(ordinal), is_serial, config.deterministic
        found = self._device_kernels.get(wanted)
        if found is None:
            func = unplanned(self._func) if is_serial else self._func
            code = device_code(func, wanted[0])
            signature = _signature(func, code, is_serial=is_serial)
            found = native.DeviceKernel(signature, code.image, code.symbol)
            self._device_kernels[wanted] = found
        return found

    def interface(self, device: Device) -> native.LaunchDescriptor:
        """Its parameters, as launches on ``device`` read arguments."""
        return self.signature if device.is_cpu else self.on_device(device.ordinal).descriptor

    def cached_gpu_launch(self, args: Sequence[Any]) -> CachedGpuLaunch | None:
        """What launches arrays like ``args`` again, which are on one GPU; None where it cannot."""
        ordinal = native.cuda_device_of(args)
        if ordinal < 0 or self._composites:
            return None
        return CachedGpuLaunch(self.on_device(ordinal), cuda_device(ordinal), config.deterministic)

    @cached_property
    def has_arrays(self) -> bool:
        """Whether a parameter is an array, and no composite that is passed by value."""
        if self._recalled is not None:
            return self._recalled.has_arrays
        return any(isinstance(p.type, ArrayType) and p.type.outer_ndim for p in self._func.params)

    @cached_property
    def written(self) -> tuple[int, ...]:
        """The parameters whose elements it writes."""
        return tuple(i for i, effect in enumerate(effects(self._func)) if effect.writes)

    @cached_property
    def _composites(self) -> tuple[int, ...]:
        params = enumerate(self._func.params)
        return tuple(
            i for i, p in params if isinstance(p.type, ArrayType) and not p.type.outer_ndim
        )

    def with_values(
        self, args: Sequence[Any], stream: Stream, *, is_kept: bool = False
    ) -> Sequence[Any]:
        """``args`` with the components of values on the GPU of ``stream``, for use there.

        If a graph keeps them, they are there when this returns: it runs in any stream, and does not
        copy them each time.
        """
        if not self._composites:
            return args
        is_captured = stream.queue.is_capturing
        place = Stream(stream.device) if is_captured else stream
        found = list(args)
        for i in self._composites:
            if isinstance(found[i], np.ndarray):
                found[i] = on_device(found[i], place)
        if is_kept or is_captured:
            place.queue.synchronize()
        return found

    def launch(self, dim: int | Sequence[int], args: Sequence[Any]) -> None:
        """Run the kernel on the CPU over the grid ``dim``, with one argument per parameter.

        Raises:
            KernelArgumentError: An argument does not fit the kernel; nothing was run.
        """
        if not native.launch(self.signature, dim, args):
            native.launch(self.serial, dim, args)


def _signature(
    func: Func, compiled: Compiled | DeviceCode, *, is_serial: bool = False
) -> native.LaunchDescriptor:
    return make_signature(func, compiled, _bindings(func), is_serial=is_serial)


def _bindings(func: Func) -> list[Binding]:
    """Every parameter bound to the argument of its place."""
    bindings: list[Binding] = []
    for index, (param, effect) in enumerate(zip(func.params, effects(func), strict=True)):
        role = Role.OUTPUT if effect.writes else Role.INPUT
        is_array = isinstance(param.type, ArrayType)
        bindings.append(Binding(role if is_array else Role.VALUE, index))
    return bindings
