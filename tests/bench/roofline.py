"""What one core can do at most: copies within a cache level, fused multiply-adds."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from kernelcore.codegen import cpu
from kernelcore.codegen.host import host

# Independent chains hide the latency of every known processor, and fit its registers.
CHAINS = 12
TURNS = 200_000


def copier(size_bytes: int) -> Callable[[], object]:
    """A copy that reads and writes ``size_bytes`` altogether, by the C library."""
    source = np.ones(size_bytes // 8, np.float32)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def multiplier() -> tuple[Callable[[], object], float]:
    """Fused multiply-adds of vectors in registers, and their number of operations per call."""
    lanes = 16 if "+avx512f" in host().features.split(",") else 8
    vector = f"<{lanes} x float>"
    names = [f"%x{k}" for k in range(CHAINS)]
    phis = "\n".join(
        f"  {n} = phi {vector} [ splat (float {k}.0), %entry ], [ {n}n, %loop ]"
        for k, n in enumerate(names)
    )
    steps = "\n".join(
        f"  {n}n = call {vector} @llvm.fma({vector} {n}, {vector} %a, {vector} %b)" for n in names
    )
    total = "\n".join(
        f"  %s{k} = fadd {vector} {f'%s{k - 1}' if k else '%b'}, {n}n" for k, n in enumerate(names)
    )
    attributes = "".join(f' "{k}"="{v}"' for k, v in host().attributes.items())
    text = f"""\
declare {vector} @llvm.fma({vector}, {vector}, {vector})
define void @kc_peak(ptr %out, i64 %turns) nounwind{attributes} {{
entry:
  %a = load {vector}, ptr %out, align 4
  %b = fadd {vector} %a, %a
  br label %loop
loop:
  %turn = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add nuw i64 %turn, 1
  %more = icmp ult i64 %next, %turns
  br i1 %more, label %loop, label %done
done:
{total}
  store {vector} %s{CHAINS - 1}, ptr %out, align 4
  ret void
}}
""".replace("@llvm.fma(", f"@llvm.fma.v{lanes}f32(")
    address = cpu.load(cpu.object_code(text), "kc_peak")
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)
    out = np.full(lanes, 0.5, np.float32)

    def call() -> None:
        out[:] = 0.5
        # ctypes lets other threads of Python run meanwhile.
        run(out.ctypes.data, TURNS)

    return call, 2.0 * lanes * CHAINS * TURNS
