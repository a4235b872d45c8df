"""Devices: where arrays are and kernels run. There is the CPU."""

from __future__ import annotations

import platform
from types import TracebackType
from typing import Self

from kernelcore.errors import KernelArgumentError, SrcLoc


class Device(str):
    """A device, which equals its name."""

    __slots__ = ()

    @property
    def alias(self) -> str:
        """Its name."""
        return str(self)

    @property
    def name(self) -> str:
        """What the hardware calls itself."""
        return platform.processor() or platform.machine()

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU."""
        return self == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return not self.is_cpu

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


CPU = Device("cpu")


def require_cpu(name: str, device: object, loc: SrcLoc | None = None) -> Device:
    """The CPU, which None stands for too.

    Raises:
        KernelArgumentError: ``device`` is another one, naming the function that was called.
    """
    if device is None or str(device) == "cpu":
        return CPU
    raise KernelArgumentError(
        f"{name}: expected device 'cpu', found {str(device)!r}: kernelcore has no memory of other "
        "devices",
        loc,
        "use device='cpu'",
    )


def get_device(ident: object = None) -> Device:
    """The device that ``ident`` names, or the one that is used where none is given.

    Raises:
        KernelArgumentError: There is no such device.
    """
    return require_cpu("get_device", ident)


def get_devices() -> list[Device]:
    """All devices."""
    return [CPU]


def get_cuda_devices() -> list[Device]:
    """The GPUs that kernels run on: none."""
    return []


def is_cuda_available() -> bool:
    """Whether kernels run on a GPU: they do not."""
    return False


def set_device(ident: object) -> None:
    """Use a device where none is given.

    Raises:
        KernelArgumentError: There is no such device.
    """
    require_cpu("set_device", ident)


class ScopedDevice:
    """Uses a device within a ``with`` block.

    Raises:
        KernelArgumentError: There is no such device.
    """

    def __init__(self, device: object) -> None:
        self.device = require_cpu("ScopedDevice", device)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


def init() -> None:
    """Do nothing: everything is set up when it is first needed."""


def synchronize() -> None:
    """Do nothing: on the CPU a launch is over when it returns."""


def synchronize_device(device: object = None) -> None:
    """As ``synchronize``.

    Raises:
        KernelArgumentError: There is no such device.
    """
    require_cpu("synchronize_device", device)
