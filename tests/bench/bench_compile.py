"""Latency: import, the first kernel of a process, further kernels, and those from the disk cache.

Processes run with Python's bytecode cache, as installed programs do, and NumPy imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from kernelcore.codegen.target import cpu
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import normalize, optimize
from tests.bench.results import Goal, show
from tests.bench.timing import Timing, interleaved, report, timing_of
from tests.helpers.patterns.memory import tv_stencil

PROCESSES = 9
WARP_PROCESSES = 3
# The program in the language of ``wp``; prints milliseconds per step, and whether LLVM is there.
PROGRAM = """\
import sys
import time
import numpy as np
times = [time.perf_counter()]
def step(): times.append(time.perf_counter())

{imports}
step()

{kernel}
def first(x: wp.array(dtype=float, ndim=2), out: wp.array(dtype=float)):
    i, j = wp.tid()
    below, right = wp.min(i + 1, x.shape[0] - 1), wp.min(j + 1, x.shape[1] - 1)
    dx, dy = x[below, j] - x[i, j], x[i, right] - x[i, j]
    wp.atomic_add(out, 0, wp.sqrt(dx * dx + dy * dy + 1.0e-6))

{forward}
def second(x: wp.array(dtype=float, ndim=2), out: wp.array(dtype=float)):
    i, j = wp.tid()
    below, right = wp.min(i + 1, x.shape[0] - 1), wp.min(j + 1, x.shape[1] - 1)
    dx, dy = x[below, j] - x[i, j], x[i, right] - x[i, j]
    wp.atomic_add(out, 0, wp.abs(dx) + wp.abs(dy))

{kernel}
def third(x: wp.array(dtype=float, ndim=2), out: wp.array(dtype=float)):
    i, j = wp.tid()
    below, right = wp.min(i + 1, x.shape[0] - 1), wp.min(j + 1, x.shape[1] - 1)
    dx, dy = x[below, j] - x[i, j], x[i, right] - x[i, j]
    wp.atomic_add(out, 0, wp.exp(-dx * dx - dy * dy))

def new(*shape): return wp.zeros(shape, dtype=float{device})

x, out, ct_x, ct_out = new(8, 8), new(1), new(8, 8), new(1)
wp.launch(first, dim=(8, 8), inputs=[x], outputs=[out]{device})
step()
wp.launch(second, dim=(8, 8), inputs=[x], outputs=[out]{device})
step()
wp.launch(third, dim=(8, 8), inputs=[x], outputs=[out]{device})
wp.launch(third, (8, 8), [x], [out], [ct_x], [ct_out], adjoint=True{device})
step()
print(*(1e3 * (b - a) for a, b in zip(times, times[1:])), "llvmlite" in sys.modules)
"""
KERNELCORE = {
    "imports": "import kernelcore as wp",
    "kernel": "@wp.kernel",
    "forward": "@wp.kernel",
    "device": "",
}
WARP = {
    "imports": "import warp as wp\nwp.config.quiet = True\nwp.init()",
    "kernel": "@wp.kernel(module='unique')",
    "forward": "@wp.kernel(module='unique', enable_backward=False)",
    "device": ", device='cpu'",
}
STEPS = ("import", "first kernel", "further kernel, forward", "further kernel with its adjoint")
FIRST = "import and first kernel"
# Milliseconds.
COLD_GOALS = {"import": 60.0, FIRST: 350.0, STEPS[2]: 100.0, STEPS[3]: 250.0}
WARM_GOALS = {STEPS[2]: 3.0, STEPS[3]: 6.0}


def run(program: Path, env: Mapping[str, str]) -> tuple[dict[str, float], bool]:
    """Milliseconds of the steps in a fresh process, and whether it imported llvmlite."""
    command = [sys.executable, str(program)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    *words, llvm = done.stdout.splitlines()[-1].split()
    found = dict(zip(STEPS, map(float, words), strict=True))
    return {**found, FIRST: found["import"] + found["first kernel"]}, llvm == "True"


def in_processes(directory: str) -> None:
    """Print the median milliseconds of the steps of the program in fresh processes."""
    programs = {name: Path(directory, f"with_{name}.py") for name in ("kernelcore", "warp")}
    programs["kernelcore"].write_text(PROGRAM.format(**KERNELCORE))
    programs["warp"].write_text(PROGRAM.format(**WARP))
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPYCACHEPREFIX": f"{directory}/code", "KC_CACHE_DIR": f"{directory}/cache"}
    run(programs["kernelcore"], {**env, "KC_CACHE": "1"})
    rows: dict[str, list[dict[str, float]]] = {"none": [], "warm": [], "Warp, none": []}
    for turn in range(PROCESSES):
        rows["none"].append(run(programs["kernelcore"], {**env, "KC_CACHE": "0"})[0])
        times, has_llvm = run(programs["kernelcore"], {**env, "KC_CACHE": "1"})
        assert not has_llvm, "a hit in the disk cache has imported llvmlite"
        rows["warm"].append(times)
        if turn < WARP_PROCESSES:
            cache = {"WARP_CACHE_PATH": f"{directory}/warp{turn}"}
            rows["Warp, none"].append(run(programs["warp"], env | cache)[0])
    found = {
        f"{step}; disk cache: {cache}": timing_of([1e3 * times[step] for times in column])
        for cache, column in rows.items()
        for step in (*STEPS, FIRST)
    }
    goals = list(goals_of(found, "none", COLD_GOALS)) + list(goals_of(found, "warm", WARM_GOALS))
    show("latency of a process", found, f"{FIRST}; disk cache: none", goals)


def goals_of(found: Mapping[str, Timing], cache: str, limits: Mapping[str, float]) -> list[Goal]:
    """The figures of ``found`` in milliseconds against ``limits``."""
    rows = {step: f"{step}; disk cache: {cache}" for step in limits}
    return [Goal(rows[s], found[rows[s]].median / 1e3, "ms", limits[s]) for s in limits]


def main() -> None:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as directory:
        in_processes(directory)
    func = tv_stencil.func
    adjoint = derive.vjp(kernel_operation(tv_stencil), [0, 1], [0]).operation.func
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
    report("latency of the compiler's parts", medians, "primal to machine code")


if __name__ == "__main__":
    main()
