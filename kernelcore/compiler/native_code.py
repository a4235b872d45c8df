"""IR to callable machine code: content hash, registry of this process, disk cache, compiler."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import cache

from kernelcore.base.config import config
from kernelcore.base.disk_cache import KEY_DIGITS, default_cache
from kernelcore.base.errors import KernelCompileError
from kernelcore.base.host import Host, host
from kernelcore.base.source_digest import codegen_version
from kernelcore.codegen import abi
from kernelcore.codegen.abi import Field
from kernelcore.codegen.simd.strategy import Form
from kernelcore.codegen.snippet import toolchain, translation_unit
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func
from kernelcore.ir.printer import canonical
from kernelcore.ir.snippet import Snippet
from kernelcore.passes.autodiff.rules import without_rules

_DIGEST_BYTES = hashlib.sha256().digest_size

_lock = threading.RLock()
# A child that is forked while another thread compiles must not find the lock taken for ever.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code of a kernel, loaded for as long as the process lives.

    Attributes:
        key: Content hash of IR, target and code generator; the same in every process.
        address: Where the kernel starts; its type is that of ``codegen/abi.py``.
        fields: The argument block, along the kernel's parameters.
        block_size: Bytes of the argument block.
        grid_rank: Dimensions of the grid that the code runs over.
        object_code: The relocatable object that defines ``symbol``.
    """

    key: str
    address: int
    fields: tuple[Field, ...]
    block_size: int
    grid_rank: int
    object_code: bytes

    @property
    def symbol(self) -> str:
        """The kernel's name in ``object_code``."""
        return symbol_of(self.key)


def symbol_of(key: str) -> str:
    """The linker symbol of the kernel with content hash ``key``."""
    return f"kc_{key}"


def content_hash(func: Func, target: Host, form: Form | None = None) -> str:
    """32 hexadecimal digits that name the code of ``func`` on ``target`` with these settings."""
    made = repr((form, config.optimize))
    text = "\0".join((canonical(func), repr(target), made, codegen_version()))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def compile_func(func: Func, form: Form | None = None) -> Compiled:
    """The machine code of ``func``: from this process, else from the disk cache, else new.

    Args:
        func: A verified kernel without calls.
        form: Which threads and turns run in step; by default the best.

    Raises:
        KernelCompileError: The code generator or LLVM rejects ``func``.
    """
    func = without_rules(func)
    key = content_hash(func, host(), form)
    with _lock:
        registry = _registry()
        found = registry.get(key)
        if found is None:
            found = registry[key] = _load_or_compile(func, key, form)
        return found


@dataclass(frozen=True, slots=True)
class Missing:
    """A kernel whose code neither this process nor the disk cache has.

    Attributes:
        func: The kernel.
        key: Its content hash.
        text: Its LLVM text, without the snippets that it calls.
    """

    func: Func
    key: str
    text: str


def missing(func: Func) -> Missing | None:
    """What has to be compiled for ``compile_func(func)`` to find; None where it is there.

    Raises:
        KernelCompileError: The code generator rejects ``func``.
    """
    func = without_rules(func)
    key = content_hash(func, host())
    with _lock:
        if key in _registry() or _stored(key) is not None:
            return None
    return Missing(func, key, cpu.llvm_text(func, symbol_of(key)))


def add(wanted: Missing, code: bytes) -> None:
    """Keep ``code``, the object of the text of ``wanted``, in this process and in the disk cache.

    Raises:
        KernelCompileError: A snippet cannot be compiled, or the object cannot be linked.
    """
    whole = _with_snippets(wanted.func, code)
    _store(wanted.key, whole)
    with _lock:
        if wanted.key not in _registry():
            _registry()[wanted.key] = _compiled(wanted.func, wanted.key, whole)


def object_of(func: Func, symbol: str, form: Form | None = None) -> bytes:
    """A relocatable object that defines the kernel ``func`` as ``symbol``.

    Raises:
        KernelCompileError: The code generator or LLVM rejects ``func``.
    """
    func = without_rules(func)
    return _with_snippets(func, cpu.object_code(cpu.llvm_text(func, symbol, form)))


def resolve(key: str) -> int | None:
    """The address of the kernel with content hash ``key``, if this process or the disk has it."""
    with _lock:
        found = _registry().get(key)
        if found is not None:
            return found.address
        code = _stored(key)
        try:
            return None if code is None else cpu.load(code, symbol_of(key))
        except KernelCompileError:
            return None


def portable(compiled: Compiled) -> bytes:
    """The code of ``compiled`` for ``load_portable``, in a process that has no source of it."""
    return _entry(compiled.object_code)


def load_portable(key: str, entry: bytes) -> int:
    """The address of the kernel with content hash ``key``, which ``portable`` stored.

    Raises:
        KernelCompileError: It was stored on another kind of processor, or is damaged.
    """
    code = _code(entry)
    if code is None:
        raise KernelCompileError("its machine code is for another kind of processor")
    return cpu.load(code, symbol_of(key))


def thunk(function_address: int, context_address: int) -> int:
    """The address of a new ``void(ptr, int64, int64)`` that calls a function with a context."""
    return cpu.thunk(function_address, context_address)


def _load_or_compile(func: Func, key: str, form: Form | None) -> Compiled:
    code = _stored(key)
    if code is not None:
        try:
            return _compiled(func, key, code)
        except KernelCompileError:
            # An intact entry that does not link here is as good as none.
            code = None
    code = object_of(func, symbol_of(key), form)
    _store(key, code)
    return _compiled(func, key, code)


def _with_snippets(func: Func, code: bytes) -> bytes:
    """``code``, the object of ``func``, with the snippets that it calls: one object as before."""
    snippets = translation_unit.snippets(func)
    if not snippets:
        return code
    return toolchain.combine([code, *(_snippet_object(s) for s in snippets)])


def _snippet_object(snippet: Snippet) -> bytes:
    """The object of ``snippet``: from the disk cache, else new."""
    disk = default_cache()
    text = "\0".join((translation_unit.key_of(snippet), host().triple, codegen_version()))
    key = hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]
    code = disk.load(key) if disk else None
    if code is None:
        code = toolchain.compile_snippet(snippet)
        if disk:
            disk.store(key, code)
    return code


def _compiled(func: Func, key: str, code: bytes) -> Compiled:
    fields, block_size = abi.layout(func.params)
    address = cpu.load(code, symbol_of(key))
    return Compiled(key, address, fields, block_size, func.rank, code)


def _stored(key: str) -> bytes | None:
    """The code under ``key`` in the disk cache, if it is for this kind of processor."""
    disk = default_cache()
    entry = disk.load(key) if disk else None
    return None if entry is None else _code(entry)


def _store(key: str, code: bytes) -> None:
    """Keep ``code`` under ``key`` in the disk cache, if there is one."""
    disk = default_cache()
    if disk:
        disk.store(key, _entry(code))


def _entry(code: bytes) -> bytes:
    """``code`` and which kind of processor it is for: keys may come from another machine."""
    return _digest_of_host() + code


def _code(entry: bytes) -> bytes | None:
    """The code of ``entry``, or None if it is for another kind of processor."""
    digest, code = entry[:_DIGEST_BYTES], entry[_DIGEST_BYTES:]
    return code if digest == _digest_of_host() else None


@cache
def _digest_of_host() -> bytes:
    return hashlib.sha256(repr(host()).encode()).digest()


@cache
def _registry() -> MutableMapping[str, Compiled]:
    return {}
