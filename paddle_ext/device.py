"""Devices and streams of Paddle as those of kernelcore, and the other way."""

from __future__ import annotations

from typing import Any

import paddle

from kernelcore import Device, Stream, get_stream
from kernelcore.operators import require_device


def device_from_paddle(paddle_device: Any) -> Device:
    """The device that a place of Paddle, or its name ('cpu', 'gpu:0'), stands for.

    Raises:
        KernelArgumentError: kernelcore has no such device.
    """
    text = str(paddle_device)
    # Places call themselves 'Place(cpu)' and 'Place(gpu:0)'; pinned memory is the CPU's.
    name = text[text.find("(") + 1 :].rstrip(")")
    name = "cpu" if name in ("cpu", "gpu_pinned") else name.replace("gpu", "cuda", 1)
    return require_device("device_from_paddle", name)


def device_to_paddle(warp_device: Any) -> str:
    """Paddle's name of a device: 'cpu', or 'gpu:0' for 'cuda:0'.

    Raises:
        KernelArgumentError: There is no such device.
    """
    return str(require_device("device_to_paddle", warp_device)).replace("cuda", "gpu", 1)


def stream_from_paddle(stream_or_device: Any = None) -> Stream:
    """The stream of a stream or a device of Paddle; by default of Paddle's current device.

    Raises:
        KernelArgumentError: kernelcore has no such device.
    """
    place = getattr(stream_or_device, "device", stream_or_device)
    return get_stream(device_from_paddle(paddle.device.get_device() if place is None else place))
