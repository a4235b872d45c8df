"""A GPU through the functions of its driver, without anything of kernelcore's own runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

LIBRARY = "libcuda.so.1"
_HEAP_BYTES = 1 << 30
_LIMIT_HEAP = 2
_MAJOR, _MINOR = 75, 76
_BLOCKING_SYNC_OFF = 0


class DriverError(Exception):
    """What the driver refused, or that there is none."""


@cache
def driver() -> Any:
    """The driver, ready.

    Raises:
        DriverError: There is none, or no GPU.
    """
    try:
        found = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise DriverError(f"no CUDA driver: {error}") from error
    check(found.cuInit(0), "cuInit", found)
    count = ctypes.c_int()
    check(found.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount", found)
    if count.value == 0:
        raise DriverError("the CUDA driver knows no GPU")
    return found


def check(result: int, what: str, library: Any = None) -> None:
    """Raise what the driver says unless it is success."""
    if result != 0:
        name = ctypes.c_char_p()
        (library or driver()).cuGetErrorName(result, ctypes.byref(name))
        raise DriverError(f"{what}: {(name.value or b'unknown').decode()} ({result})")


def call(name: str, *args: Any) -> None:
    """Call a function of the driver, whose integers and pointers are given as ctypes has them."""
    check(getattr(driver(), name)(*args), name)


@cache
def use(ordinal: int) -> str:
    """Make the primary context of a GPU current in this thread; returns its architecture."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), ordinal)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    # Where kernels of this process have taken memory from the heap before, it stays as it is.
    driver().cuCtxSetLimit(_LIMIT_HEAP, ctypes.c_size_t(_HEAP_BYTES))
    parts: list[int] = []
    for attribute in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        parts.append(value.value)
    return f"sm_{parts[0]}{parts[1]}"


@cache
def function(image: bytes, symbol: str) -> ctypes.c_void_p:
    """The kernel ``symbol`` of PTX, loaded for as long as the process lives."""
    module, found = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
    call("cuModuleGetFunction", ctypes.byref(found), module, symbol.encode())
    return found


class Buffer:
    """Memory of the current GPU with a copy of ``size`` bytes at ``address`` of the host."""

    def __init__(self, address: int, size: int) -> None:
        self.host, self.size = address, size
        pointer = ctypes.c_uint64()
        # Whole words, which atomic updates of smaller elements exchange.
        call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(size + 3 & ~3, 4)))
        self.device = pointer.value
        if size:
            source, count = ctypes.c_void_p(address), ctypes.c_size_t(size)
            call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.device), source, count)

    def read_back(self) -> None:
        """Overwrite the bytes of the host."""
        if self.size:
            target, count = ctypes.c_void_p(self.host), ctypes.c_size_t(self.size)
            call("cuMemcpyDtoH_v2", target, ctypes.c_uint64(self.device), count)

    def free(self) -> None:
        """Give the memory of the GPU back."""
        call("cuMemFree_v2", ctypes.c_uint64(self.device))


def launch(kernel: ctypes.c_void_p, blocks: int, threads: int, parameters: Sequence[Any]) -> None:
    """Queue a launch in the default stream; ``parameters`` are objects of ctypes."""
    addresses = (ctypes.c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
    sizes = [ctypes.c_uint(n) for n in (blocks, 1, 1, threads, 1, 1, 0)]
    call("cuLaunchKernel", kernel, *sizes, None, addresses, None)


def synchronize() -> None:
    """Wait until all is done, and raise what failed."""
    call("cuCtxSynchronize")


class Stopwatch:
    """Milliseconds that the GPU takes."""

    def __init__(self) -> None:
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            call("cuEventCreate", ctypes.byref(event), _BLOCKING_SYNC_OFF)

    def start(self) -> None:
        """Begin after what was queued."""
        call("cuEventRecord", self.events[0], None)

    def stop(self) -> float:
        """The time from ``start`` to the end of what was queued, in milliseconds."""
        call("cuEventRecord", self.events[1], None)
        call("cuEventSynchronize", self.events[1])
        elapsed = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(elapsed), *self.events)
        return elapsed.value
