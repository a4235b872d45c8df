"""Devices: where arrays are and kernels run, and what each kind of device can do."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from kernelcore.errors import KernelArgumentError, SrcLoc


@dataclass(frozen=True, slots=True)
class Backend:
    """What one kind of device does; handles are those of its driver, 0 where there are none.

    Attributes:
        count: How many devices there are.
        name: What the hardware of a device calls itself.
        synchronize: Waits until everything on a device is over.
        create_stream: The handle of a new stream of a device, of a priority.
        mark: Puts a mark into a stream: a number that ``elapsed_ms`` and ``is_over`` take.
        wait: Makes a stream wait for a mark.
        is_over: Whether everything before a mark is over.
        elapsed_ms: Milliseconds between two marks that are over.
    """

    count: Callable[[], int]
    name: Callable[[int], str]
    synchronize: Callable[[int], None]
    create_stream: Callable[[int, int], int]
    mark: Callable[[int], int]
    wait: Callable[[int, int], None]
    is_over: Callable[[int], bool]
    elapsed_ms: Callable[[int, int], float]


# A launch on the CPU is over when it returns, so there is nothing to wait for.
_CPU_BACKEND = Backend(
    count=lambda: 1,
    name=lambda index: platform.processor() or platform.machine(),
    synchronize=lambda index: None,
    create_stream=lambda index, priority: 0,
    mark=lambda stream: time.perf_counter_ns(),
    wait=lambda stream, mark: None,
    is_over=lambda mark: True,
    elapsed_ms=lambda start, end: (end - start) / 1e6,
)

BACKENDS: Mapping[str, Backend] = {"cpu": _CPU_BACKEND}


class Device(str):
    """A device, which equals its name: 'cpu', or a kind and an index as in 'cuda:0'."""

    __slots__ = ()

    @property
    def alias(self) -> str:
        """Its name."""
        return str(self)

    @property
    def kind(self) -> str:
        """The kind of device: 'cpu'."""
        return self.partition(":")[0]

    @property
    def ordinal(self) -> int:
        """Its index among the devices of its kind."""
        return int(self.partition(":")[2] or 0)

    @property
    def backend(self) -> Backend:
        """What devices of its kind do."""
        return BACKENDS[self.kind]

    @property
    def name(self) -> str:
        """What the hardware calls itself."""
        return self.backend.name(self.ordinal)

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU."""
        return self.kind == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU of NVIDIA's."""
        return self.kind == "cuda"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


CPU = Device("cpu")

# Of this thread (and asynchronous task).
_current: ContextVar[Device] = ContextVar("device", default=CPU)


def require_device(name: str, ident: object, loc: SrcLoc | None = None) -> Device:
    """The device that ``ident`` names; None is the one that is used where none is given.

    Raises:
        KernelArgumentError: There is no such device, naming the function that was called.
    """
    if ident is None:
        return _current.get()
    if ident is CPU or ident == "cpu":
        return CPU
    kind, _, index = str(ident).partition(":")
    backend = BACKENDS.get(kind)
    if backend is not None and kind != "cpu" and (index or "0").isdecimal():
        device = Device(f"{kind}:{int(index or 0)}")
        if device.ordinal < backend.count():
            return device
    raise KernelArgumentError(
        f"{name}: expected device 'cpu', found {str(ident)!r}: kernelcore has no memory of other "
        "devices",
        loc,
        "use device='cpu'",
    )


def get_device(ident: object = None) -> Device:
    """The device that ``ident`` names, or the one that is used where none is given.

    Raises:
        KernelArgumentError: There is no such device.
    """
    return require_device("get_device", ident)


def get_preferred_device() -> Device:
    """The first GPU, or the CPU where there is none."""
    return next(iter(get_cuda_devices()), CPU)


def get_devices() -> list[Device]:
    """All devices."""
    return [CPU, *get_cuda_devices()]


def get_cuda_devices() -> list[Device]:
    """The GPUs that kernels run on."""
    backend = BACKENDS.get("cuda")
    return [] if backend is None else [Device(f"cuda:{k}") for k in range(backend.count())]


def is_cuda_available() -> bool:
    """Whether kernels run on a GPU."""
    return bool(get_cuda_devices())


def is_cpu_available() -> bool:
    """Whether kernels run on the CPU: they do."""
    return True


def set_device(ident: object) -> None:
    """Use a device where none is given.

    Raises:
        KernelArgumentError: There is no such device.
    """
    _current.set(require_device("set_device", ident))


class ScopedDevice:
    """Uses a device within a ``with`` block.

    Raises:
        KernelArgumentError: There is no such device.
    """

    def __init__(self, device: object) -> None:
        self.device = require_device("ScopedDevice", device)
        self._tokens: list[Token[Device]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_current.set(self.device))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.reset(self._tokens.pop())


def init() -> None:
    """Do nothing: everything is set up when it is first needed."""


def synchronize() -> None:
    """Wait until everything that was launched is over; on the CPU it is."""
    for device in get_devices():
        synchronize_device(device)


def synchronize_device(device: object = None) -> None:
    """As ``synchronize``, of one device.

    Raises:
        KernelArgumentError: There is no such device.
    """
    found = require_device("synchronize_device", device)
    found.backend.synchronize(found.ordinal)
