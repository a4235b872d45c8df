"""Malformed DLPack capsules and array interfaces are refused; none ends the process.

Run as a script with a seed and a number of inputs, it prints how many were taken.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import subprocess
import sys
from typing import Any

import kernelcore as kc
from tests.helpers.environment import ROOT

INPUTS = os.environ.get("KC_FUZZ_CAPSULES", "3000")
SEED = os.environ.get("KC_FUZZ_SEED", "0")
BUFFER_BYTES = 4096
_NEW = ctypes.pythonapi.PyCapsule_New
_NEW.restype, _NEW.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
EDGES = (0, 1, -1, 2, 3, 7, 1 << 31, 1 << 40, 1 << 62, -(1 << 63), (1 << 63) - 1)


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class Legacy(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


BUFFER = ctypes.create_string_buffer(BUFFER_BYTES)
REFUSALS = (kc.KernelError, BufferError, TypeError, ValueError, OverflowError, IndexError)
# Longest arrays of extents that a tensor may claim to have; those beyond must not be read.
MOST_DIMS = 14


class Exporter:
    """An object of one capsule."""

    def __init__(self, capsule: Any, device: Any) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> Any:
        return self.device


class Interface:
    """An object with an array interface of a GPU."""

    def __init__(self, described: dict[str, Any]) -> None:
        self.__cuda_array_interface__ = described


def number(rng: random.Random) -> int:
    return rng.choice(EDGES) if rng.random() < 0.4 else rng.randrange(6)


def tensor(rng: random.Random, kept: list[Any]) -> Tensor:
    """A tensor, mostly of sound parts."""
    ndim = rng.choice((0, 1, 2, 3, MOST_DIMS, MOST_DIMS + 1, 1 << 30, -1, -(1 << 31)))
    rows = [(ctypes.c_int64 * MOST_DIMS)(*(number(rng) for _ in range(MOST_DIMS))) for _ in "ab"]
    kept.extend(rows)
    shape, strides = (ctypes.addressof(row) for row in rows)
    return Tensor(
        data=ctypes.addressof(BUFFER)
        if rng.random() < 0.9
        else rng.choice((None, 1, (1 << 64) - 8)),
        device_type=rng.choice((1, 1, 1, 1, 1, 2, 3, 13, 0, -7, 1 << 30)),
        device_id=rng.choice((0, 0, 0, 1, -1)),
        ndim=ndim,
        code=rng.choice((0, 1, 2, 2, 2, 4, 5, 6, 200)),
        bits=rng.choice((8, 16, 32, 32, 32, 64, 128, 0, 1, 7)),
        lanes=rng.choice((1, 1, 1, 1, 0, 2, 65535)),
        shape=shape if rng.random() < 0.9 else None,
        strides=strides if rng.random() < 0.7 else None,
        byte_offset=rng.choice((0, 0, 0, 4, 8, (1 << 64) - 1, 1 << 63)),
    )


def capsule(rng: random.Random, kept: list[Any]) -> Any:
    """A capsule of either kind, or of none."""
    if rng.random() < 0.5:
        held: Any = Versioned(
            major=rng.choice((1, 1, 1, 1, 0, 2, 1 << 31)), flags=rng.choice((0, 1, 2, 1 << 63))
        )
        name = b"dltensor_versioned"
    else:
        held, name = Legacy(), b"dltensor"
    held.tensor = tensor(rng, kept)
    names = [name] * 9 + [rng.choice((b"used_dltensor", b"", b"other"))]
    chosen = ctypes.create_string_buffer(rng.choice(names))
    kept.extend((held, chosen))
    return _NEW(ctypes.addressof(held), ctypes.cast(chosen, ctypes.c_char_p), None)


def interface(rng: random.Random) -> Interface:
    """A description of which some parts are missing or of another kind."""
    junk = (None, "x", (), (1, "a"), -1, 3.5, [2], {})
    described: dict[str, Any] = {
        "version": 3,
        "typestr": rng.choice(("<f4", "|b1", ">f4", "<f3", "<V2", "f4", "")),
        "shape": tuple(number(rng) for _ in range(rng.randrange(4))),
        "strides": rng.choice((None, tuple(number(rng) for _ in range(rng.randrange(4))))),
        "data": (rng.choice((0, 1 << 40, -1, 1 << 70)), rng.choice((True, False, "yes"))),
    }
    for key in list(described):
        chance = rng.random()
        if chance < 0.1:
            described[key] = rng.choice(junk)
        elif chance < 0.15:
            del described[key]
    return Interface(described)


def attempt(rng: random.Random) -> bool:
    """Whether one input was taken; where it was, it describes addresses without wrap-around."""
    kept: list[Any] = []
    if rng.random() < 0.2:
        source: Any = interface(rng)
    else:
        made = capsule(rng, kept)
        device = rng.choice(((1, 0), (1, None), (2, 0), (1,), None, ("a", 0), (1 << 70, 0)))
        source = (
            made if rng.random() < 0.5 else Exporter(made, device if rng.random() < 0.2 else (1, 0))
        )
    taken = False
    with contextlib.suppress(*REFUSALS):
        check(kc.ArrayMemory(source))
        taken = True
    with contextlib.suppress(*REFUSALS):
        kc.from_dlpack(source)
    with contextlib.suppress(kc.KernelArgumentError, kc.KernelDeviceError):
        kc.launch(probe, dim=0, inputs=[source])
    return taken


def check(memory: kc.ArrayMemory) -> None:
    """What was taken describes addresses that do not wrap around."""
    pairs = list(zip(memory.extents, memory.stride_bytes, strict=True))
    assert all(extent >= 0 for extent, _ in pairs)
    if all(extent > 0 for extent, _ in pairs):
        low = sum(min(0, s * (n - 1)) for n, s in pairs)
        high = sum(max(0, s * (n - 1)) for n, s in pairs)
        assert 0 <= memory.ptr + low <= memory.ptr + high < 1 << 63, pairs


@kc.kernel
def probe(x: kc.array2d(dtype=float)):
    i = kc.tid()
    x[i, 0] = 1.0


def test_malformed_capsules_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.test_capsules", SEED, INPUTS],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    count, _, taken = done.stdout.partition(" inputs, ")
    # Neither all sound nor all broken: both sides of every check are reached.
    assert int(count) // 20 < int(taken.split()[0]) < int(count) // 2


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    taken = sum(attempt(rng) for _ in range(count))
    print(f"{count} inputs, {taken} taken")


if __name__ == "__main__":
    main()
