"""Executable: a kernel over arrays that the caller provides, on the CPU and on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.dataclass import dataclass
from kernelcore.base.lazy import Deferred
from kernelcore.base.nesting import refusing_deep_nesting
from kernelcore.base.threads import cached_property
from kernelcore.compiler import perf_map
from kernelcore.compiler.code_store import CPU, GPU, symbol_of
from kernelcore.compiler.launch_descriptor import LaunchDescriptor, Role
from kernelcore.runtime.device import Device, device_of_arrays
from kernelcore.runtime.device_memory import on_device
from kernelcore.runtime.stream import Stream, current_stream

# A kernel that the disk cache knows is launched without the compiler.
if TYPE_CHECKING:
    from kernelcore.compiler import describe_launch, native_code, ptx_code
    from kernelcore.compiler.kernel_cache import KernelEntry
    from kernelcore.ir.core import Func
    from kernelcore.passes.access import accumulation_plan
else:
    describe_launch = Deferred("kernelcore.compiler.describe_launch")
    native_code = Deferred("kernelcore.compiler.native_code")
    ptx_code = Deferred("kernelcore.compiler.ptx_code")
    accumulation_plan = Deferred("kernelcore.passes.access.accumulation_plan")


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
        make: Makes the kernel, ready for code generation, where the disk cache does not know it.
        entry: Says where the disk cache keeps it.
        label: Gives ``func.label`` without making the kernel.
    """

    def __init__(
        self,
        make: Callable[[], Func],
        entry: Callable[[], KernelEntry | None] = lambda: None,
        label: Callable[[], str] | None = None,
    ) -> None:
        self._make = make
        self._entry = entry
        self._label = label
        self._device_kernels: dict[tuple[str, bool, bool], native.DeviceKernel] = {}
        # Bytes of the code that was made or loaded, by what it is for.
        self.code_bytes: dict[str, int] = {}

    @cached_property
    def func(self) -> Func:
        """The kernel, ready for code generation."""
        name = "the kernel" if self._label is None else self._label()
        with refusing_deep_nesting(name, None):
            return self._make()

    @cached_property
    def signature(self) -> native.LaunchDescriptor:
        """The kernel as native launchers take it, for arrays that do not share memory.

        That is, where it adds to them.
        """
        return self._launchable(None, is_serial=False)[0]

    @cached_property
    def serial(self) -> native.LaunchDescriptor:
        """The kernel for arrays that share memory: one thread runs its points in order."""
        return self._launchable(None, is_serial=True)[0]

    @property
    def is_on_cpu(self) -> bool:
        """Whether there is code for the CPU, and none for a GPU."""
        return "signature" in self.__dict__ and not self._device_kernels

    def on_device(self, ordinal: int, *, is_serial: bool = False) -> native.DeviceKernel:
        """As ``signature`` or ``serial``, for CUDA device ``ordinal``.

        Raises:
            KernelCompileError: The kernel has what GPUs have no code for.
            KernelDeviceError: There is no such device.
        """
        wanted = ptx_code.architecture_of(ordinal), is_serial, config.deterministic
        if wanted not in self._device_kernels:
            launchable = self._launchable(wanted[0], is_serial=is_serial)
            self._device_kernels[wanted] = native.DeviceKernel(*launchable)
        return self._device_kernels[wanted]

    def _launchable(
        self, architecture: str | None, *, is_serial: bool
    ) -> tuple[native.LaunchDescriptor, bytes, str]:
        """The kernel for GPUs of ``architecture``, or for the CPU: description, code, symbol."""
        target = f"{architecture or 'cpu'}{', serial' * is_serial}"
        described = self._described(is_serial=True) if is_serial else self.described
        key = self._known(target)
        found = isinstance(key, str) and (GPU if architecture else CPU).find(key)
        if not found:
            func = accumulation_plan.unplanned(self.func) if is_serial else self.func
            if architecture:
                compiled = ptx_code.device_code(func, architecture)
            else:
                compiled = native_code.compile_func(func)
            key, found = compiled.key, (compiled.image, compiled.address)
            self._keep(target, key)
        code, address = found
        name = symbol_of(key)
        if architecture:
            code, name = ptx_code.named(self.label, key, code)
        elif config.perf_map:
            perf_map.add(self.label, name, code, address)
        self.code_bytes[target] = len(code)
        return described.signature(key, address), code, name

    @property
    def label(self) -> str:
        """The name and the place of the definition, as profiles show them."""
        return self.func.label if self._label is None else self._label()

    @property
    def launches(self) -> int:
        """Launches so far; graphs that are replayed as a whole, and operators, do not count."""
        made = [self.__dict__.get(name) for name in ("signature", "serial")]
        found = [*filter(None, made), *(k.descriptor for k in self._device_kernels.values())]
        return sum(descriptor.launches for descriptor in found)

    @cached_property
    def described(self) -> LaunchDescriptor:
        """What launchers know of the kernel besides its code."""
        return self._described(is_serial=False)

    def _described(self, *, is_serial: bool) -> LaunchDescriptor:
        what = f"launch{', serial' * is_serial}"
        known = LaunchDescriptor.from_literal(self._known(what))
        if known is not None:
            return known
        func = accumulation_plan.unplanned(self.func) if is_serial else self.func
        bindings = describe_launch.own_bindings(func)
        found = describe_launch.describe_launch(func, bindings, is_serial=is_serial)
        self._keep(what, found.literal())
        return found

    def _known(self, what: str) -> Any:
        """What the disk cache has of the kernel."""
        entry = self._entry()
        return entry and entry.load(what)

    def _keep(self, what: str, value: object) -> None:
        if entry := self._entry():
            entry.store(what, value)

    def interface(self, device: Device) -> native.LaunchDescriptor:
        """Its parameters, as launches on ``device`` read arguments."""
        return self.signature if device.is_cpu else self.on_device(device.ordinal).descriptor

    def cached_gpu_launch(self, args: Sequence[Any]) -> CachedGpuLaunch | None:
        """What launches arrays like ``args`` again, which are on one GPU; None where it cannot."""
        gpu = device_of_arrays(args)
        if gpu is None or self._composites:
            return None
        return CachedGpuLaunch(self.on_device(gpu.ordinal), gpu, config.deterministic)

    @cached_property
    def has_arrays(self) -> bool:
        """Whether a parameter is an array, and no composite that is passed by value."""
        return any(slot.outer_ndim for slot in self.described.parameter_slots)

    @cached_property
    def written(self) -> tuple[int, ...]:
        """The parameters whose elements it writes."""
        slots = enumerate(self.described.parameter_slots)
        return tuple(i for i, slot in slots if slot.role == Role.OUTPUT)

    @cached_property
    def arrays(self) -> tuple[int, ...]:
        """The parameters that are arrays."""
        slots = enumerate(self.described.parameter_slots)
        return tuple(i for i, slot in slots if slot.role != Role.VALUE)

    @cached_property
    def _composites(self) -> tuple[int, ...]:
        slots = enumerate(self.described.parameter_slots)
        return tuple(i for i, s in slots if s.role != Role.VALUE and not s.outer_ndim)

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
