"""Where a launch runs: a device, its stream, and how many threads of it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

import numpy as np

from kernelcore.base.config import config
from kernelcore.base.errors import KernelArgumentError, SrcLoc
from kernelcore.runtime.device import Device, require_device
from kernelcore.runtime.stream import Stream


@dataclass(frozen=True, slots=True)
class Place:
    """What a launch asks for.

    Attributes:
        device: None where the arrays decide.
        stream: None for the one that is used there where none is given.
        block_dim: Threads of a block of a GPU; 0 for what ``config.block_dim`` says.
        max_blocks: Blocks at most; 0 for as many as there are points for.
    """

    device: Device | None = None
    stream: Stream | None = None
    block_dim: int = 0
    max_blocks: int = 0

    @property
    def threads(self) -> int:
        """Threads of a block; 0 for as many as the launcher chooses."""
        return self.block_dim or config.block_dim


ANYWHERE = Place()

# Of the launch that is being made.
requested: ContextVar[Place] = ContextVar("requested", default=ANYWHERE)


@contextmanager
def use_place(place: Place) -> Generator[None]:
    """Launches within the block ask for ``place``."""
    token = requested.set(place)
    try:
        yield
    finally:
        requested.reset(token)


def place_of(
    name: str,
    device: object,
    stream: object,
    block_dim: int | None = None,
    max_blocks: int = 0,
    loc: SrcLoc | None = None,
) -> Place:
    """What ``name`` was called with.

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
    return Place(found, stream, int(threads), int(max_blocks))


def is_count(value: object) -> bool:
    """Whether ``value`` is an integer that is not negative, of Python or NumPy."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and bool(cast("int", value) >= 0)
