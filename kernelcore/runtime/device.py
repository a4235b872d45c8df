"""Device, and the Backend of each kind of device."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from functools import cache
from typing import Any, Self

from kernelcore.base import native
from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelArgumentError, KernelDeviceError, SrcLoc
from kernelcore.runtime.cpu_stream import CpuEvent, CpuStream


@dataclass(frozen=True, slots=True)
class Backend:
    """The functions of one kind of device; ``runtime/cpu_stream.py`` shows its streams and events.

    Attributes:
        count: The number of devices.
        name: The hardware's name of a device.
        synchronize: Waits for all work of a device.
        make_stream: A new stream of a device, with a priority.
        wrap_stream: The stream of a device with a given handle; 0 is the default stream.
        make_event: A new event of a device: whether it measures time, and is interprocess.
        wrap_event: The event of a device with a given handle.
    """

    count: Callable[[], int]
    name: Callable[[int], str]
    synchronize: Callable[[int], None]
    make_stream: Callable[[int, int], Any]
    wrap_stream: Callable[[int, int], Any]
    make_event: Callable[[int, bool, bool], Any]
    wrap_event: Callable[[int, int], Any]


_CPU_BACKEND = Backend(
    count=lambda: 1,
    name=lambda index: platform.processor() or platform.machine(),
    synchronize=lambda index: None,
    make_stream=lambda index, priority: CpuStream(),
    wrap_stream=lambda index, handle: CpuStream(),
    make_event=lambda index, is_timed, is_interprocess: CpuEvent(),
    wrap_event=lambda index, handle: CpuEvent(),
)

# The first call opens the driver.
_CUDA_BACKEND = Backend(
    count=native.cuda_device_count,
    name=native.cuda_device_name,
    synchronize=native.cuda_synchronize,
    make_stream=native.CudaStream.create,
    wrap_stream=native.CudaStream.wrap,
    make_event=native.CudaEvent,
    wrap_event=native.CudaEvent.wrap,
)

BACKENDS: Mapping[str, Backend] = {"cpu": _CPU_BACKEND, "cuda": _CUDA_BACKEND}


class Device(str):
    """A device, which equals its name: 'cpu', or a kind and an index as in 'cuda:0'."""

    __slots__ = ()

    @property
    def alias(self) -> str:
        """Its name."""
        return str(self)

    @property
    def kind(self) -> str:
        """Either 'cpu' or 'cuda'."""
        return self.partition(":")[0]

    @property
    def ordinal(self) -> int:
        """Its index among the devices of its kind."""
        return int(self.partition(":")[2] or 0)

    @property
    def backend(self) -> Backend:
        """The functions of its kind of device."""
        return BACKENDS[self.kind]

    @property
    def name(self) -> str:
        """The hardware's name."""
        return self.backend.name(self.ordinal)

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU."""
        return self.kind == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether it is an NVIDIA GPU."""
        return self.kind == "cuda"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


CPU = Device("cpu")


@cache
def cuda_device(ordinal: int) -> Device:
    """The GPU ``ordinal``, which exists."""
    return Device(f"cuda:{ordinal}")


def device_of_arrays(args: Sequence[Any]) -> Device | None:
    """The GPU that has one of ``args``; None where no GPU has."""
    ordinal = native.cuda_device_of(args)
    return None if ordinal < 0 else cuda_device(ordinal)


# The default device of this thread (and asynchronous task).
_current: ContextVar[Device] = ContextVar("device", default=CPU)


def require_device(name: str, ident: object, loc: SrcLoc | None = None) -> Device:
    """The device that ``ident`` names; None stands for the default device.

    Raises:
        KernelArgumentError: There is no such device, naming the function that was called.
        KernelDeviceError: There is no driver for it.
    """
    if ident is None:
        return _current.get()
    if ident is CPU or ident == "cpu":
        return CPU
    kind, _, index = str(ident).partition(":")
    backend = BACKENDS.get(kind)
    if backend is None or kind == "cpu" or not (index or "0").isdecimal():
        raise KernelArgumentError(
            f"{name}: expected a device, 'cpu' or 'cuda:0' and so on, found {str(ident)!r}",
            loc,
            "kernelcore.get_devices() lists those of this machine",
        )
    current = _current.get()
    if not index and current.kind == kind:
        return current
    device = Device(f"{kind}:{int(index or 0)}")
    try:
        count = backend.count()
    except KernelDeviceError as error:
        raise KernelDeviceError(f"{name}: device '{device}': {error.message}", loc) from None
    if device.ordinal >= count:
        raise KernelArgumentError(
            f"{name}: expected one of {count} CUDA devices, found {str(ident)!r}",
            loc,
            "check nvidia-smi and CUDA_VISIBLE_DEVICES",
        )
    return device


def get_device(ident: object = None) -> Device:
    """The device that ``ident`` names, or the default device of this thread.

    Raises:
        KernelArgumentError: There is no such device.
    """
    return require_device("get_device", ident)


def get_preferred_device() -> Device:
    """The first GPU, or the CPU if there is none."""
    return next(iter(get_cuda_devices()), CPU)


def get_devices() -> list[Device]:
    """All devices."""
    return [CPU, *get_cuda_devices()]


def get_cuda_devices() -> list[Device]:
    """The GPUs that kernels run on; none without a driver."""
    try:
        count = BACKENDS["cuda"].count()
    except KernelDeviceError:
        return []
    return [Device(f"cuda:{k}") for k in range(count)]


def used_devices() -> list[Device]:
    """The CPU, and the GPUs that this process has used."""
    return [CPU, *map(cuda_device, native.cuda_known_devices())]


def is_cuda_available() -> bool:
    """Whether kernels run on a GPU."""
    return bool(get_cuda_devices())


def is_cpu_available() -> bool:
    """Whether kernels run on the CPU: always."""
    return True


def set_device(ident: object) -> None:
    """Set the default device of this thread (and asynchronous task).

    Raises:
        KernelArgumentError: There is no such device.
    """
    _current.set(require_device("set_device", ident))


class ScopedDevice:
    """Sets the default device within a ``with`` block.

    Raises:
        KernelArgumentError: There is no such device.
    """

    def __init__(self, device: object) -> None:
        self.device = require_device("ScopedDevice", device)
        self._tokens: list[Token[Device]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_current.set(self.device))
        return self

    def __exit__(self, *exception: object) -> None:
        _current.reset(self._tokens.pop())


def init() -> None:
    """Do nothing: everything is set up on first use."""


def synchronize() -> None:
    """Wait for all launches; those of the CPU are complete when they return.

    Raises:
        KernelError: A kernel has failed on a device.
    """
    for device in used_devices():
        synchronize_device(device)


def synchronize_device(device: object = None) -> None:
    """Wait for all launches on one device, by default the default device.

    Raises:
        KernelArgumentError: There is no such device.
        KernelError: A kernel has failed on it.
    """
    found = require_device("synchronize_device", device)
    found.backend.synchronize(found.ordinal)
