"""IR to callable machine code: found by its content hash, else compiled."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from kernelcore.base.config import config
from kernelcore.base.dataclass import dataclass
from kernelcore.base.disk_cache import default_cache, key_of
from kernelcore.base.errors import KernelCompileError
from kernelcore.base.host import Host, host
from kernelcore.base.lazy import Deferred
from kernelcore.base.nesting import refusing_deep_nesting
from kernelcore.base.source_digest import codegen_version
from kernelcore.codegen import abi
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.codegen.snippet import translation_unit
from kernelcore.codegen.target import cpu
from kernelcore.compiler import perf_map
from kernelcore.compiler.code_store import CPU, Compiled, symbol_of
from kernelcore.ir.core import Func
from kernelcore.ir.printer import canonical
from kernelcore.ir.snippet import Snippet
from kernelcore.passes.autodiff.rules import without_rules

# Few kernels call functions in C++.
if TYPE_CHECKING:
    from kernelcore.codegen.snippet import toolchain
else:
    toolchain = Deferred("kernelcore.codegen.snippet.toolchain")

# Chooses strategies in place of the cost model; None leaves a kernel to it.
Chooser = Callable[[Func], VectorStrategy | None]
_chooser: ContextVar[Chooser] = ContextVar("chooser of strategies", default=lambda func: None)


@contextmanager
def strategies_by(chooser: Chooser) -> Generator[None]:
    """Let ``chooser`` decide how kernels that are compiled inside use SIMD registers.

    Kernels that a ``Kernel`` or the disk cache has already are not compiled again.
    """
    token = _chooser.set(chooser)
    try:
        yield
    finally:
        _chooser.reset(token)


def content_hash(func: Func, target: Host, strategy: VectorStrategy | None = None) -> str:
    """32 hexadecimal digits that name the code of ``func`` on ``target`` with these settings."""
    made = repr((strategy, config.optimize))
    return key_of(canonical(func), repr(target), made, codegen_version())


def compile_func(func: Func, strategy: VectorStrategy | None = None) -> Compiled:
    """The machine code of ``func``: from this process, else from the disk cache, else new.

    Args:
        func: A verified kernel without calls.
        strategy: How it uses SIMD registers; by default what the cost model chooses, or what
            ``strategies_by`` was given.

    Raises:
        KernelCompileError: The code generator or LLVM rejects ``func``.
    """
    func = without_rules(func)
    strategy = strategy or _chooser.get()(func)
    key = content_hash(func, host(), strategy)
    image, address = CPU.find_or_make(key, lambda: object_of(func, symbol_of(key), strategy))
    perf_map.add(func.label, symbol_of(key), image, address)
    return Compiled(key, image, *abi.layout(func.params), address)


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
    if CPU.find(key):
        return None
    return Missing(func, key, cpu.llvm_text(func, symbol_of(key)))


def add(wanted: Missing, code: bytes) -> None:
    """Keep ``code``, the object of the text of ``wanted``, in this process and in the disk cache.

    Raises:
        KernelCompileError: A snippet cannot be compiled, or the object cannot be linked.
    """
    CPU.keep(wanted.key, _with_snippets(wanted.func, code))


def object_of(func: Func, symbol: str, strategy: VectorStrategy | None = None) -> bytes:
    """A relocatable object that defines the kernel ``func`` as ``symbol``.

    Raises:
        KernelCompileError: The code generator or LLVM rejects ``func``.
        KernelSyntaxError: It is nested too deeply.
    """
    func = without_rules(func)
    with refusing_deep_nesting(f"'{func.name}'", func.loc):
        text = cpu.llvm_text(func, symbol, strategy)
    return _with_snippets(func, cpu.object_code(text))


def _with_snippets(func: Func, code: bytes) -> bytes:
    """``code``, the object of ``func``, with the snippets that it calls: one object as before."""
    snippets = translation_unit.snippets(func)
    if not snippets:
        return code
    found = [_snippet_object(s) for s in snippets]
    try:
        return toolchain.combine([code, *found])
    except KernelCompileError:
        # An entry of the disk cache may be intact and no object.
        return toolchain.combine([code, *(_snippet_object(s, is_new=True) for s in snippets)])


def _snippet_object(snippet: Snippet, *, is_new: bool = False) -> bytes:
    """The object of ``snippet``: from the disk cache unless it ``is_new``, else new."""
    disk = default_cache()
    key = key_of(translation_unit.key_of(snippet), host().triple, codegen_version())
    code = disk.load(key) if disk and not is_new else None
    # An empty entry links, but defines nothing.
    if code is None or translation_unit.symbol_of(snippet).encode() not in code:
        code = toolchain.compile_snippet(snippet)
        if disk:
            disk.store(key, code)
    return code
