"""Code of kernels by content hash: of this process, else of the disk cache."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING

from kernelcore.base import native
from kernelcore.base.dataclass import dataclass
from kernelcore.base.digest import sha256
from kernelcore.base.disk_cache import default_cache
from kernelcore.base.errors import KernelCompileError
from kernelcore.base.host import host
from kernelcore.base.lazy import Deferred
from kernelcore.compiler import perf_map

# Code that is found needs no compiler.
if TYPE_CHECKING:
    from kernelcore.codegen.abi import Field
    from kernelcore.codegen.target import cpu
else:
    cpu = Deferred("kernelcore.codegen.target.cpu")

_DIGEST_BYTES = sha256().digest_size


@dataclass(frozen=True, slots=True)
class Compiled:
    """Code of a kernel.

    Attributes:
        key: Content hash of IR, target and code generator; the same in every process.
        image: A relocatable object, or PTX, that defines ``symbol``.
        fields: The argument block, along the kernel's parameters.
        block_size: Bytes of the argument block.
        address: Where machine code starts, for as long as the process lives; its type is that of
            ``codegen/abi.py``. 0 for PTX.
        name: The kernel's name in ``image``, where it is not that of its key.
    """

    key: str
    image: bytes
    fields: tuple[Field, ...]
    block_size: int
    address: int = 0
    name: str | None = None

    @property
    def symbol(self) -> str:
        """The kernel's name in ``image``."""
        return self.name or symbol_of(self.key)


def symbol_of(key: str) -> str:
    """The linker symbol of the kernel with content hash ``key``."""
    return f"kc_{key}"


@dataclass(slots=True)
class CodeStore:
    """Code of one kind by content hash.

    Attributes:
        suffix: Of its entries in the disk cache.
        is_native: Whether it is machine code, which is linked into the process, and starts with a
            digest of the processor it is for: keys may come from another machine.
        known: The code and the address of what this process has.
        in_the_making: A lock for each code that a thread makes and others wait for.
    """

    suffix: str
    is_native: bool
    known: dict[str, tuple[bytes, int]]
    in_the_making: dict[str, AbstractContextManager[bool]]

    def find_or_make(self, key: str, make: Callable[[], bytes]) -> tuple[bytes, int]:
        """``find``, else ``keep`` what ``make`` gives; threads that want the same make it once.

        Raises:
            KernelCompileError: The object cannot be made or linked.
        """
        if found := self.find(key):
            return found
        with self.in_the_making.setdefault(key, threading.RLock()):
            try:
                return self.known.get(key) or self.keep(key, make())
            finally:
                # Those that come from here on find it, or make it as this thread could not.
                self.in_the_making.pop(key, None)

    def find(self, key: str) -> tuple[bytes, int] | None:
        """The code under ``key`` and its address, if this process or the disk cache has it."""
        if found := self.known.get(key):
            return found
        disk = default_cache(self.suffix)
        entry = disk.load(key) if disk else None
        # An intact entry that is code of something else, or no code, is as good as none.
        if entry is None or symbol_of(key).encode() not in entry:
            return None
        code = _code(entry) if self.is_native else entry
        try:
            return None if code is None else self._linked(key, code)
        except KernelCompileError:
            return None

    def keep(self, key: str, code: bytes) -> tuple[bytes, int]:
        """Keep new ``code`` in this process and in the disk cache.

        Raises:
            KernelCompileError: The object cannot be linked.
        """
        disk = default_cache(self.suffix)
        if disk:
            disk.store(key, portable(code) if self.is_native else code)
        return self.known.get(key) or self._linked(key, code)

    def _linked(self, key: str, code: bytes) -> tuple[bytes, int]:
        # Of threads that link it at once, all get the address of the first.
        return self.known.setdefault(key, (code, _load(code, key) if self.is_native else 0))


CPU = CodeStore("o", True, {}, {})
GPU = CodeStore("ptx", False, {}, {})


def _forget_other_threads() -> None:
    for store in (CPU, GPU):
        store.in_the_making.clear()


os.register_at_fork(after_in_child=_forget_other_threads)


def resolve(key: str) -> int | None:
    """The address of the kernel with content hash ``key``, if this process or the disk has it."""
    found = CPU.find(key)
    if found:
        perf_map.add(symbol_of(key), symbol_of(key), *found)
    return found and found[1]


def stored_image(key: str) -> bytes | None:
    """The PTX of the kernel with content hash ``key``, if this process or the disk has it."""
    found = GPU.find(key)
    return found and found[0]


def portable(code: bytes) -> bytes:
    """Machine code for ``load_portable``, in a process that has no source of it."""
    return _digest_of_host() + code


def load_portable(key: str, entry: bytes) -> int:
    """The address of the kernel with content hash ``key``, whose code ``portable`` gave.

    Raises:
        KernelCompileError: It is for another kind of processor, or is damaged.
    """
    code = _code(entry)
    if code is None:
        raise KernelCompileError("its machine code is for another kind of processor")
    address = _load(code, key)
    perf_map.add(symbol_of(key), symbol_of(key), code, address)
    return address


def _load(code: bytes, key: str) -> int:
    return (native.load_object or cpu.load)(code, symbol_of(key))


def _code(entry: bytes) -> bytes | None:
    """The code of ``entry``, or None if it is for another kind of processor."""
    digest, code = entry[:_DIGEST_BYTES], entry[_DIGEST_BYTES:]
    return code if digest == _digest_of_host() else None


@cache
def _digest_of_host() -> bytes:
    return sha256(repr(host()).encode()).digest()
