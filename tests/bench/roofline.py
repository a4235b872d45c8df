"""What one core can do at most: copies within a cache level, fused multiply-adds, integers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from kernelcore.base.host import host
from kernelcore.codegen.target import cpu

# Independent chains hide the latency of every known processor, and fit its registers.
CHAINS = 12
TURNS = 200_000
# Integers have half as many registers, and instructions of one cycle.
INTEGER_CHAINS = 8
INTEGER_TURNS = 150_000


def copier(size_bytes: int) -> Callable[[], object]:
    """A copy that reads and writes ``size_bytes`` altogether, by the C library."""
    source = np.ones(size_bytes // 8, np.float32)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def multiplier() -> tuple[Callable[[], object], float]:
    """Fused multiply-adds of vectors in registers, and their number of operations per call."""
    lanes = 16 if "+avx512f" in host().features.split(",") else 8
    vector, fma = f"<{lanes} x float>", f"@llvm.fma.v{lanes}f32"
    names = [f"%x{k}" for k in range(CHAINS)]
    run = _looped(
        [f"%a = load {vector}, ptr %out, align 4", f"%b = fadd {vector} %a, %a"],
        [
            f"{n} = phi {vector} [ splat (float {k}.0), %entry ], [ {n}n, %loop ]"
            for k, n in enumerate(names)
        ],
        [f"{n}n = call {vector} {fma}({vector} {n}, {vector} %a, {vector} %b)" for n in names],
        [
            *(
                f"%s{k} = fadd {vector} {f'%s{k - 1}' if k else '%b'}, {n}n"
                for k, n in enumerate(names)
            ),
            f"store {vector} %s{CHAINS - 1}, ptr %out, align 4",
        ],
        f"declare {vector} {fma}({vector}, {vector}, {vector})",
        "".join(f' "{k}"="{v}"' for k, v in host().attributes.items()),
    )
    out = np.full(lanes, 0.5, np.float32)

    def call() -> None:
        out[:] = 0.5
        # ctypes lets other threads of Python run meanwhile.
        run(out.ctypes.data, TURNS)

    return call, 2.0 * lanes * CHAINS * TURNS


def counter() -> Callable[[], object]:
    """Integer instructions in registers, as many per cycle as a core takes.

    A core that runs another program's thread as well is slow at them, while vectors may not be.
    """
    names = [f"%x{k}" for k in range(INTEGER_CHAINS)]
    run = _looped(
        ["%one = load i64, ptr %out"],
        [f"{n} = phi i64 [ {k}, %entry ], [ {n}n, %loop ]" for k, n in enumerate(names)],
        [
            step
            for n in names
            for step in (
                f"{n}a = shl i64 {n}, 1",
                f"{n}b = xor i64 {n}a, %one",
                f"{n}c = sub i64 {n}b, {n}",
                f"{n}n = or i64 {n}c, %turn",
            )
        ],
        [
            *(
                f"%s{k} = xor i64 {f'%s{k - 1}' if k else '%one'}, {n}n"
                for k, n in enumerate(names)
            ),
            f"store i64 %s{INTEGER_CHAINS - 1}, ptr %out",
        ],
    )
    out = np.ones(1, np.int64)
    return lambda: run(out.ctypes.data, INTEGER_TURNS)


def _looped(
    entry: list[str],
    carried: list[str],
    turn: list[str],
    done: list[str],
    declared: str = "",
    attributes: str = "",
) -> Callable[[int, int], object]:
    """Machine code of a loop: LLVM's instructions before it, of its phis and turns, and after it.

    The function takes the address ``%out`` and the number of turns.
    """
    before, phis, steps, after = ("\n  ".join(part) for part in (entry, carried, turn, done))
    text = f"""\
{declared}
define void @kc_looped(ptr %out, i64 %turns) nounwind{attributes} {{
entry:
  {before}
  br label %loop
loop:
  %turn = phi i64 [ 0, %entry ], [ %next, %loop ]
  {phis}
  {steps}
  %next = add nuw i64 %turn, 1
  %more = icmp ult i64 %next, %turns
  br i1 %more, label %loop, label %done
done:
  {after}
  ret void
}}
"""
    address = cpu.load(cpu.object_code(text), "kc_looped")
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)
