"""LLVM text to machine code of this host, and machine code to addresses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.errors import KernelCompileError
from kernelcore.base.host import Host, host
from kernelcore.base.lazy import Deferred
from kernelcore.base.llvm import engine, lock
from kernelcore.codegen.code_form import carried_form, code_form
from kernelcore.codegen.simd.gathering import choose_detours, has_own_code, strategies_of_pieces
from kernelcore.codegen.simd.strategy import (
    VectorStrategy,
    choose_strategy,
    short_loops,
    short_rows,
)
from kernelcore.codegen.target import machine
from kernelcore.ir.core import Func

# Code that the disk cache has is loaded without it.
if TYPE_CHECKING:
    from kernelcore.codegen.llvm import alternatives, kernel
    from kernelcore.codegen.llvm.alternatives import Alternative
    from kernelcore.passes import scheduling
else:
    alternatives = Deferred("kernelcore.codegen.llvm.alternatives")
    kernel = Deferred("kernelcore.codegen.llvm.kernel")
    scheduling = Deferred("kernelcore.passes.scheduling")


def llvm_text(
    func: Func,
    symbol: str = "kernel",
    strategy: VectorStrategy | None = None,
    *,
    with_lines: bool = False,
) -> str:
    """The LLVM text of kernel ``func`` for this host, before LLVM's passes."""
    form = code_form(func)
    carried = carried_form(form)
    func = form if carried is None else carried.func
    chosen = strategy or choose_strategy(func, host())
    # No choice here or in launches depends on the order of the equations of a block.
    if chosen.gang > 1:
        func = scheduling.schedule(func)
    has_detours = config.optimize and strategy is None and not with_lines
    # Kernels whose loops carry elements gather no sums and have no other axis.
    may_turn = has_detours and carried is None
    gathering, other = choose_detours(func) if may_turn else (None, None)
    others: list[Alternative] = []
    if carried is not None:
        others.append(alternatives.as_written(form, carried))
    if other is not None:
        others.append(alternatives.along_other_axis(other, choose_strategy(other.func, host())))
    short = short_loops(func, chosen, host()) if has_detours else None
    if short is not None:
        others.append(alternatives.of_short_loops(scheduling.schedule(func), short))
    may_narrow = has_detours and has_own_code(gathering)
    narrow = short_rows(func, chosen, host()) if may_narrow else None
    if narrow is not None:
        others.append(alternatives.of_short_rows(func, narrow))
    pieces = gathering and (gathering, strategies_of_pieces(gathering.sums, host()))
    return kernel.emit_kernel(
        func,
        symbol,
        host().attributes,
        chosen,
        with_lines=with_lines,
        scales=host().scales,
        alternatives=others,
        gathering=pieces,
    )


def assembly(text: str) -> str:
    """The assembly of LLVM ``text`` on this host."""
    return machine.assembly(text, host())


def object_code(text: str, target: Host | None = None) -> bytes:
    """The relocatable object of LLVM ``text`` for ``target``, or for this host.

    Raises:
        KernelCompileError: LLVM does not accept ``text``.
    """
    return machine.object_code(text, target or host())


def load(code: bytes, symbol: str) -> int:
    """The address of ``symbol`` in object ``code``, which stays loaded while the process lives.

    Raises:
        KernelCompileError: The object cannot be linked.
    """
    if native.load_object is not None:
        return native.load_object(code, symbol)
    return _linked(code, symbol)


def thunk(function_address: int, context_address: int) -> int:
    """The address of a new ``void(ptr, int64, int64)`` that calls a function with a context.

    The function is ``void(ptr, int64, int64, ptr context)``. The thunk is never unloaded. Its call
    is a jump: while the function runs the stack has no frame of the thunk, and exceptions pass.
    """
    symbol = f"kc_thunk_{function_address:x}_{context_address:x}"
    context = f"ptr inttoptr (i64 {context_address} to ptr)"
    text = f"""\
define void @{symbol}(ptr %data, i64 %first, i64 %second) {{
  %function = inttoptr i64 {function_address} to ptr
  tail call void %function(ptr %data, i64 %first, i64 %second, {context})
  ret void
}}
"""
    return load(object_code(text), symbol)


@lock
def _linked(code: bytes, symbol: str) -> int:
    """``load`` by LLVM's linker, for the formats of other systems."""
    jit, number = _linker(), next(_library_numbers())
    library = engine().JITLibraryBuilder().add_object_img(code).add_current_process()
    library.export_symbol(symbol)
    try:
        tracker = library.link(jit, f"kernelcore.{number}")
    except RuntimeError as error:
        raise KernelCompileError(f"cannot link {symbol}: {error}") from error
    address: int = tracker[symbol]
    # Threads of native code may be inside, so the code is never unloaded.
    tracker.detach()
    return address


@cache
def _linker() -> Any:
    return engine().create_lljit_compiler(machine.target_machine(host(), machine.CODE))


@cache
def _library_numbers() -> Iterator[int]:
    return itertools.count()
