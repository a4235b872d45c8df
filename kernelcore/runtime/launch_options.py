"""LaunchOptions: the device and stream of a launch, and its threads and blocks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

import numpy as np

from kernelcore.base.config import config
from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.runtime.device import Device, require_device
from kernelcore.runtime.stream import Stream


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """The options of a launch.

    Attributes:
        device: Where to run; None where the arrays are.
        stream: The stream of a GPU; None for the current one.
        block_dim: Threads of a block of a GPU; 0 for ``config.block_dim``.
        max_blocks: The most blocks; 0 for no limit.
    """

    device: Device | None = None
    stream: Stream | None = None
    block_dim: int = 0
    max_blocks: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block; 0 lets the launcher choose."""
        return self.block_dim or config.block_dim


DEFAULTS = LaunchOptions()

# The options of the current launch.
requested: ContextVar[LaunchOptions] = ContextVar("requested", default=DEFAULTS)


@contextmanager
def use_options(options: LaunchOptions) -> Generator[None]:
    """Launches within the block have these ``options``."""
    token = requested.set(options)
    try:
        yield
    finally:
        requested.reset(token)


def options_of(
    name: str,
    device: object,
    stream: object,
    block_dim: int | None = None,
    max_blocks: int = 0,
    loc: SrcLoc | None = None,
) -> LaunchOptions:
    """The options that ``name`` was called with, checked.

    Raises:
        KernelArgumentError: There is no such device, the stream is another's, or a count is wrong.
        KernelDeviceError: There is no driver for the device.
    """
    found = None if device is None else require_device(name, device, loc)
    if stream is not None and not isinstance(stream, Stream):
        raise KernelArgumentError(
            f"{name}: stream: expected a kc.Stream, found {type(stream).__name__}",
            remedy="wrap another library's: kc.Stream(device, cuda_stream=handle)",
        )
    if stream is not None and found is not None and stream.device != found:
        raise KernelArgumentError(
            f"{name}: stream: expected a stream of {found}, found one of {stream.device}"
        )
    threads = 0 if block_dim is None else block_dim
    for what, count in (("block_dim", threads), ("max_blocks", max_blocks)):
        if not is_count(count):
            raise KernelArgumentError(
                f"{name}: {what}: expected an integer of at least 0, found {count!r}"
            )
    if stream is not None:
        found = stream.device
    return LaunchOptions(found, stream, int(threads), int(max_blocks))


def is_count(value: object) -> bool:
    """Whether ``value`` is an integer that is not negative, of Python or NumPy."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and bool(cast("int", value) >= 0)
