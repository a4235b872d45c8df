"""How a kernel returns before its end: after a failure or an interrupt."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.codegen import abi
from kernelcore.codegen.llvm.emitter import Emitter

FINISH_BLOCK = "finish"


def fail(e: Emitter, status: int, details: Sequence[str] = ()) -> None:
    """Leave the kernel with ``status``, unless another thread has failed before.

    The words after the status get ``details``, of type i64.
    """
    target = _status(e)
    words = f"ptr {target}, i64 {abi.STATUS_OK}, i64 {status}"
    pair = e.op(f"cmpxchg {words} monotonic monotonic, align 8")
    if details:
        first = e.label("first")
        is_first = e.op(f"extractvalue {{ i64, i1 }} {pair}, 1")
        e.branch(is_first, first, FINISH_BLOCK)
        e.start_block(first)
    for at, value in enumerate(details, 1):
        word = e.op(f"getelementptr i64, ptr {target}, i64 {at}")
        e.effect(f"store i64 {value}, ptr {word}, align 8")
    e.jump(FINISH_BLOCK)


def leave_if_stopped(e: Emitter) -> None:
    """Leave the kernel if another thread has failed or the user has interrupted the launch.

    CPU code of ``while`` loops does so in each iteration.
    """
    if not e.facts.checks_status:
        return
    status = e.op(f"load atomic i64, ptr {_status(e)} monotonic, align 8")
    go_on = e.label("continue")
    e.branch(e.op(f"icmp eq i64 {status}, {abi.STATUS_OK}"), go_on, FINISH_BLOCK)
    e.start_block(go_on)


def _status(e: Emitter) -> str:
    field = e.op(f"getelementptr i8, ptr %grid, i64 {abi.GRID_STATUS_OFFSET}")
    return e.op(f"load ptr, ptr {field}")
