"""Latency: import, the first kernel of a process, further kernels, and those from the disk cache.

Processes run with Python's bytecode cache, as installed programs do.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path

from kernelcore import opderive
from kernelcore.codegen import cpu
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.opshape import kernel_operation
from kernelcore.passes.pipeline import normalize, optimize
from kernelcore.passes.reverse import vjp
from tests.bench.timing import interleaved, report
from tests.patterns.memory import tv_stencil

PROCESSES = 9
# Milliseconds per step, in the order of the lines printed.
PROGRAM = """\
import time
import numpy as np
times = [time.perf_counter()]
def step(): times.append(time.perf_counter())

import kernelcore as kc
step()

@kc.kernel
def first(x: kc.array(dtype=float, ndim=2), out: kc.array(dtype=float)):
    i, j = kc.tid()
    below, right = kc.min(i + 1, x.shape[0] - 1), kc.min(j + 1, x.shape[1] - 1)
    dx, dy = x[below, j] - x[i, j], x[i, right] - x[i, j]
    kc.atomic_add(out, 0, kc.sqrt(dx * dx + dy * dy + 1.0e-6))

@kc.kernel
def second(x: kc.array(dtype=float, ndim=2), out: kc.array(dtype=float)):
    i, j = kc.tid()
    below, right = kc.min(i + 1, x.shape[0] - 1), kc.min(j + 1, x.shape[1] - 1)
    dx, dy = x[below, j] - x[i, j], x[i, right] - x[i, j]
    kc.atomic_add(out, 0, kc.abs(dx) + kc.abs(dy))

x, out = np.ones((8, 8), np.float32), np.zeros(1, np.float32)
kc.launch(first, dim=x.shape, inputs=[x], outputs=[out])
step()
second.direct
step()
first.adjoint((0,), (1,)).direct
step()
print(*(1e3 * (b - a) for a, b in zip(times, times[1:])))
"""
STEPS = ("import", "first kernel", "further kernel", "adjoint")


def in_processes() -> None:
    """Print the median milliseconds of the steps of ``PROGRAM`` in fresh processes."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory, "program.py")
        program.write_text(PROGRAM)
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"PYTHONPYCACHEPREFIX": directory, "KC_CACHE_DIR": f"{directory}/cache"}

        def run(cache: str) -> list[float]:
            command = [sys.executable, str(program)]
            chosen = {**env, "KC_CACHE": cache}
            done = subprocess.run(command, env=chosen, capture_output=True, text=True, check=True)
            return [float(word) for word in done.stdout.split()]

        run("1")
        rows: dict[str, list[list[float]]] = {"0": [], "1": []}
        for _ in range(PROCESSES):
            for cache, found in rows.items():
                found.append(run(cache))
    for cache, title in (("0", "no disk cache"), ("1", "warm disk cache")):
        columns = zip(STEPS, zip(*rows[cache], strict=True), strict=True)
        for name, column in columns:
            times = f"{statistics.median(column):8.1f} ms, best {min(column):8.1f} ms"
            print(f"{title:16} {name:16} {times}")


def main() -> None:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    in_processes()
    func = tv_stencil.func
    adjoint = opderive.vjp(kernel_operation(tv_stencil), [0, 1], [0]).operation.func
    number = count()
    code = {n: cpu.object_code(cpu.llvm_text(optimize(func), n)) for n in ("kc_loaded",)}
    medians = interleaved(
        {
            "source to IR": lambda: normalize(specialize_kernel(tv_stencil.pyfunc)),
            "IR to adjoint IR": lambda: normalize(vjp(func, [0, 1], [2]).func),
            "primal to machine code": lambda: cpu.object_code(
                cpu.llvm_text(optimize(func), f"kc_{next(number)}")
            ),
            "adjoint to machine code": lambda: cpu.object_code(
                cpu.llvm_text(optimize(adjoint), f"kc_{next(number)}")
            ),
            "object to callable": lambda: cpu.load(code["kc_loaded"], "kc_loaded"),
        }
    )
    report("latency", medians, "primal to machine code")


if __name__ == "__main__":
    main()
