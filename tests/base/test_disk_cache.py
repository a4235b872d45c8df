"""Content hashes, the registry of the process, and the disk cache."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from kernelcore.base import source_digest
from kernelcore.base.disk_cache import KEY_DIGITS, DiskCache, default_cache
from kernelcore.base.errors import KernelCompileError
from kernelcore.base.host import Host, host
from kernelcore.base.source_digest import codegen_sources
from kernelcore.builtins import OPS
from kernelcore.codegen.target import cpu
from kernelcore.compiler import code_store
from kernelcore.compiler.native_code import compile_func, content_hash, symbol_of
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Func, Var
from kernelcore.language.types import ArrayType, float32
from tests.helpers.cache_entries import KEY, intact
from tests.helpers.kernel_harness import const, launch, make


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "objects"
    monkeypatch.setenv("KC_CACHE_DIR", str(path))
    monkeypatch.delenv("KC_CACHE", raising=False)
    return path


def scale(factor: float, name: str = "scale") -> Func:
    def write(b: Builder, x: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value = b.emit(OPS["mul"], b.emit(ops.LOAD, x, i), const(float32, factor))
        b.emit_effect(ops.STORE, x, i, value)

    return make(name, [ArrayType(float32, 1)], write, grid_rank=1)


def test_content_hash_depends_on_meaning_and_target_only() -> None:
    here = host()
    key = content_hash(scale(2.0), here)
    assert len(key) == 32
    assert set(key) <= set("0123456789abcdef")
    assert content_hash(scale(2.0, "other"), here) == key
    assert content_hash(scale(2.5), here) != key
    elsewhere = Host(here.triple, "generic", "", here.llvm_version)
    assert content_hash(scale(2.0), elsewhere) != key


def test_content_hash_is_the_same_in_another_process(directory: Path) -> None:
    script = (
        "from tests.base.test_disk_cache import scale\n"
        "from kernelcore.compiler.native_code import compile_func\n"
        "print(compile_func(scale(1.25)).key)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert found.strip() == content_hash(scale(1.25), host())
    assert [p.name for p in directory.glob("*.o")] == [f"{found.strip()}.o"]


def test_equal_functions_are_compiled_once(directory: Path) -> None:
    assert compile_func(scale(3.0)) == compile_func(scale(3.0, "again"))
    assert len(list(directory.iterdir())) == 1


def test_threads_that_race_get_one_compilation(directory: Path) -> None:
    found: list[code_store.Compiled] = []
    threads = [
        threading.Thread(target=lambda: found.append(compile_func(scale(3.5)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({c.address for c in found}) == 1


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty the registry of this process for the length of a test."""
    monkeypatch.setattr(code_store.CPU, "known", {})


def test_a_stored_object_is_loaded_instead_of_compiled(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compile_func(scale(4.0))
    forget(monkeypatch)

    def refuse(text: str) -> bytes:
        raise AssertionError(text)

    monkeypatch.setattr(cpu, "object_code", refuse)
    again = compile_func(scale(4.0))
    assert again.image == first.image
    assert again.symbol == symbol_of(first.key)
    x = np.ones(3, np.float32)
    launch(scale(4.0), [x], 3)
    assert x.tolist() == [4, 4, 4]


DAMAGES = ["flip", "truncate", "empty", "digest", "directory", "full-directory", "link", "pipe"]


@pytest.mark.parametrize("damage", [*DAMAGES, "no object", "another kernel", "other bytes"])
def test_damaged_entries_are_recompiled(
    directory: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    forget(monkeypatch)
    first = compile_func(scale(5.0))
    path = directory / f"{first.key}.o"
    entry = path.read_bytes()
    forget(monkeypatch)
    if damage == "no object":
        with pytest.raises(KernelCompileError):
            code_store.CPU.keep(first.key, b"no object")
    else:
        flipped = entry[:-1] + bytes([entry[-1] ^ 1])
        other = scale(5.5)
        texts = {
            "flip": flipped,
            "truncate": entry[:50],
            "empty": b"",
            "digest": entry[:32],
            "another kernel": (directory / f"{compile_func(other).key}.o").read_bytes(),
            "other bytes": intact(path.name, entry[32:64] + b"\x7fELF" + bytes(200)),
        }
        path.unlink()
        match damage:
            case "directory":
                path.mkdir()
            case "full-directory":
                (path / "inside").mkdir(parents=True)
            case "link":
                path.symlink_to("/dev/zero")
            case "pipe":
                os.mkfifo(path)
            case _:
                path.write_bytes(texts[damage])
    forget(monkeypatch)
    x = np.ones(2, np.float32)
    launch(scale(5.0), [x], 2)
    assert x.tolist() == [5, 5]
    assert path.read_bytes() == entry


def test_code_of_another_processor_is_not_loaded(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch)
    elsewhere = dataclasses.replace(host(), cpu="another")
    with monkeypatch.context() as there:
        there.setattr(code_store, "host", lambda: elsewhere)
        there.setattr(code_store, "_digest_of_host", code_store._digest_of_host.__wrapped__)
        key = compile_func(scale(8.0)).key
        assert code_store.resolve(key) is not None
    forget(monkeypatch)
    assert (directory / f"{key}.o").exists()
    assert code_store.resolve(key) is None


def test_entries_are_private(directory: Path) -> None:
    cache = DiskCache(str(directory))
    assert cache.store(KEY, b"code")
    assert directory.stat().st_mode & 0o777 == 0o700
    assert cache.load(KEY) == b"code"
    assert [p.name for p in directory.iterdir()] == [f"{KEY}.o"]


def test_a_directory_that_others_can_write_is_not_trusted(directory: Path) -> None:
    cache = DiskCache(str(directory))
    cache.store(KEY, b"code")
    directory.chmod(0o777)
    with pytest.warns(UserWarning, match=r"can be written by others \(mode 777\); set"):
        assert cache.load(KEY) is None
    # One warning is enough.
    assert not cache.store(KEY, b"code")


def test_files_of_another_owner_are_not_trusted(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(str(directory))
    cache.store(KEY, b"code")
    stranger = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: stranger)
    with pytest.warns(UserWarning, match=f"belongs to the user {stranger - 1}, and this process"):
        assert cache.load(KEY) is None
    assert not cache.store(KEY, b"code")
    folder = os.stat(directory)
    monkeypatch.setattr(os, "getuid", lambda: folder.st_uid)
    assert cache.load(KEY) == b"code"


def test_an_unusable_directory_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    monkeypatch.setenv("KC_CACHE_DIR", str(blocked / "inside"))
    monkeypatch.delenv("KC_CACHE", raising=False)
    assert not DiskCache(str(blocked / "inside")).store(KEY, b"code")
    assert DiskCache(str(blocked / "inside")).load(KEY) is None
    forget(monkeypatch)
    x = np.ones(1, np.float32)
    launch(scale(6.0), [x], 1)
    assert x.tolist() == [6]


def test_the_cache_can_be_switched_off(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")
    assert default_cache() is None
    forget(monkeypatch)
    compile_func(scale(7.0))
    assert not directory.exists()


def test_the_key_covers_every_source_of_code() -> None:
    names = {"/".join(Path(f).parts[-2:]) for f in codegen_sources()}
    assert names >= {"builtins/elementary.py", "maths/power.py", "llvm/kernel.py"}


def test_entries_are_the_files_of_their_kind(directory: Path) -> None:
    disk = DiskCache(str(directory / "counted"))
    assert disk.entries() == []
    for key in ("a", "b"):
        assert disk.store(key * KEY_DIGITS, b"code")
    assert DiskCache(disk.directory, "host").store("c" * KEY_DIGITS, b"a processor")
    (Path(disk.directory) / "notes.o").touch()
    assert [path.name[0] for path in disk.entries()] == ["a", "b"]


def test_a_change_of_any_source_is_seen(
    directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    (package / "codegen").mkdir(parents=True)
    files = [package / "codegen" / "one.py", package / "two.py"]
    monkeypatch.setattr(source_digest, "_PACKAGE", str(package))
    monkeypatch.setattr(source_digest, "_CODEGEN", (str(package / "codegen"),))
    monkeypatch.setattr(source_digest, "_paths", lambda: list(map(str, files)))
    monkeypatch.setattr(source_digest, "_IMPORTED_NS", 2**62)
    found: list[tuple[str | None, str | None]] = []

    def write(path: Path, text: str) -> None:
        path.write_text(text)
        os.utime(path, (1, 1))

    def look(settled: bool) -> None:
        monkeypatch.setattr(source_digest, "_TICK_NS", -(10**12) if settled else 2 * 10**9)
        versions = source_digest.codegen_version, source_digest.package_version
        codegen, package = (version.__wrapped__() for version in versions)
        found.append((codegen, package))

    for settled in (False, True):
        for path in files:
            write(path, "a = 1")
        look(settled)
        write(files[1], "a = 2")
        look(settled)
        look(settled)
        write(files[0], "a = 3")
        look(settled)
    assert found[:4] == found[4:]
    assert found[1] == found[2]
    assert [a == b for a, b in zip(found[0], found[1], strict=True)] == [True, False]
    assert [a == b for a, b in zip(found[1], found[3], strict=True)] == [False, False]
    assert len(list(directory.glob("*.sources"))) == 5
    monkeypatch.setattr(source_digest, "_paths", list)
    look(settled=True)
    assert found[-1][1] is None


def test_sources_replaced_after_the_import_have_no_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def look() -> tuple[str, str | None]:
        return (
            source_digest.codegen_version.__wrapped__(),
            source_digest.package_version.__wrapped__(),
        )

    monkeypatch.setattr(source_digest, "_PACKAGE", str(tmp_path))
    monkeypatch.setattr(source_digest, "_CODEGEN", (str(tmp_path),))
    monkeypatch.setattr(source_digest, "_paths", source_digest._paths.__wrapped__)
    (tmp_path / "__pycache__").mkdir()
    known: list[tuple[str, str | None]] = []
    for name in ("a.pyc", "b.h", "__pycache__/c.pyc"):
        (tmp_path / name).write_text(name)
        monkeypatch.setattr(source_digest, "_IMPORTED_NS", time.time_ns())
        known.append(look())
        assert look() == known[-1]
    assert known[0] != known[1] == known[2]
    monkeypatch.setattr(source_digest, "_IMPORTED_NS", time.time_ns() - 10**10)
    assert look()[0] != look()[0]
    assert look()[1] is None
    (tmp_path / "a.pyc").unlink()
    monkeypatch.setattr(source_digest, "_IMPORTED_NS", time.time_ns())
    assert look()[1] is None


def test_device_code_of_something_else_counts_as_none(directory: Path) -> None:
    assert DiskCache(str(directory), "ptx").store(KEY, b".visible .entry kc_other() {}")
    assert code_store.stored_image(KEY) is None
    text = f".visible .entry {symbol_of(KEY)}() {{}}".encode()
    assert DiskCache(str(directory), "ptx").store(KEY, text)
    assert code_store.stored_image(KEY) == text
    del code_store.GPU.known[KEY]
