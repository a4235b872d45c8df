"""Damaged entries of the disk cache count as none; entries of other contents run no code.

``make fuzz-cache`` reads more of them.
"""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base import host as host_module
from kernelcore.base import literal
from kernelcore.base.disk_cache import KINDS, DiskCache
from kernelcore.base.errors import KernelCompileError
from kernelcore.base.native import load_object
from kernelcore.compiler import code_store, func_text
from kernelcore.compiler.launch_descriptor import LaunchDescriptor
from kernelcore.ir.printer import canonical
from tests.helpers.cache_entries import intact

ENTRIES = int(os.environ.get("KC_FUZZ_ENTRIES", "3000"))
SEED = int(os.environ.get("KC_FUZZ_SEED", "0"))
# Objects that link stay loaded, so that fewer of them are tried.
OBJECT_SHARE = 20


def mix(x: kc.array(dtype=float), y: kc.array(dtype=float), a: float):
    i = kc.tid()
    total = 0.0
    for k in range(4):
        if x[i] > float(k):
            total += kc.sin(x[i] * a)
    kc.atomic_add(y, 0, total)
    assert total < 100.0, "too large"


def launched() -> list[float]:
    """The results of ``mix`` and of its adjoint, of a kernel that knows nothing yet."""
    kernel = kc.kernel(mix)
    x, y = np.linspace(0.0, 4.0, 8, dtype=np.float32), np.zeros(1, np.float32)
    kc.launch(kernel, 8, [x], [y, 0.5])
    ct_x, ct_y = np.zeros_like(x), np.ones_like(y)
    kc.launch(kernel, 8, [x], [y, 0.5], [ct_x], [ct_y, None], adjoint=True)
    return [*y.tolist(), *ct_x.tolist()]


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_store.CPU, "known", {})
    host_module.host.cache_clear()


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KC_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.delenv("KC_CACHE", raising=False)
    forget(monkeypatch)
    return tmp_path / "kernels"


def mutated(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Other bytes than ``data``."""
    while True:
        found = bytearray(data)
        place = rng.randrange(len(found) + 1)
        match rng.randrange(7):
            case 0:
                found[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                for _ in range(rng.randrange(1, 20)):
                    found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
            case 2:
                del found[place:]
            case 3:
                found += rng.randbytes(rng.randrange(1, 100))
            case 4:
                end = rng.randrange(place, len(found) + 1)
                found[place:end] = bytes(end - place)
            case 5:
                end = rng.randrange(place, len(found) + 1)
                del found[place:end]
            case _:
                found = bytearray(rng.choice(others))
        if bytes(found) != data:
            return bytes(found)


def corpus(directory: Path) -> dict[Path, bytes]:
    launched()
    found = {path: path.read_bytes() for path in sorted(directory.iterdir())}
    assert {path.suffix[1:] for path in found} >= {"o", "launch", "ir", "host"}
    return found


def test_damaged_entries_count_as_none(directory: Path) -> None:
    entries = corpus(directory)
    rng = random.Random(SEED)
    for _ in range(ENTRIES):
        path, data = rng.choice(list(entries.items()))
        path.write_bytes(mutated(data, list(entries.values()), rng))
        assert DiskCache(str(directory), path.suffix[1:]).load(path.stem) is None
        path.write_bytes(data)


def read_launch(entry: bytes) -> None:
    LaunchDescriptor.from_literal(literal.read(entry))


def read_object(entry: bytes) -> None:
    code = code_store._code(entry)
    if code is not None and load_object is not None:
        try:
            load_object(code, "kc_none")
        except KernelCompileError:
            return


READERS: dict[str, Callable[[bytes], Any]] = {
    "ir": func_text.loads,
    "launch": read_launch,
    "host": host_module._read,
    "o": read_object,
}


def test_entries_of_other_contents_are_read_without_harm(directory: Path) -> None:
    held = {path: data[32:] for path, data in corpus(directory).items()}
    rng = random.Random(SEED)
    for turn in range(ENTRIES):
        path, data = rng.choice(list(held.items()))
        kind = path.suffix[1:]
        if kind in READERS and (kind != "o" or turn % OBJECT_SHARE == 0):
            # The digest of the processor stays right.
            kept = 32 if kind == "o" else 0
            READERS[kind](data[:kept] + mutated(data[kept:], list(held.values()), rng))


def test_kernels_are_right_whatever_the_cache_holds(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, expected = corpus(directory), launched()
    rng = random.Random(SEED)
    for turn in range(max(ENTRIES // 500, 4)):
        for path, data in entries.items():
            path.unlink(missing_ok=True)
            if rng.random() < 0.2:
                path.mkdir()
            else:
                path.write_bytes(mutated(data, list(entries.values()), rng))
        forget(monkeypatch)
        assert launched() == expected, turn
        for path, data in entries.items():
            assert path.is_dir() is False
            if path.suffix in (".o", ".host"):
                assert path.read_bytes() == data
            else:
                assert DiskCache(str(directory), path.suffix[1:]).load(path.stem) is not None
            path.write_bytes(data)


class Planted:
    """Unpickling it writes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("kind", KINDS)
def test_intact_entries_of_other_things_run_nothing(
    kind: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, expected = corpus(directory), launched()
    trap = directory / "trap"
    held = pickle.dumps(Planted(str(trap))), f"__import__('os').mkdir({str(trap)!r})".encode(), b""
    for text in (*held, b"[]", b"()", b"0", b"'x'", b"[" * 10_000, b"\xff"):
        for path in entries:
            if path.suffix[1:] == kind:
                path.write_bytes(intact(path.name, text))
        forget(monkeypatch)
        assert launched() == expected
        assert not trap.exists()


def test_the_text_of_ir_is_that_ir(directory: Path) -> None:
    func = kc.kernel(mix).func
    again = func_text.loads(func_text.dumps(func))
    assert again is not None
    assert canonical(again) == canonical(func)
    assert [p.name for p in again.params] == [p.name for p in func.params]
    assert again.param_locs == func.param_locs
