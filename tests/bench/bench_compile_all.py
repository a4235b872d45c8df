"""compile_all on modules of 12 and 40 kernels, against compiling them one after the other."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.results import Goal, show
from tests.bench.scaling import free_processors
from tests.bench.timing import timing_of

FEW, MANY = 12, 40
ROUNDS = 5
KERNEL = """\
@kc.kernel
def stencil_{k}(x: kc.array(dtype=float, ndim=2), out: kc.array(dtype=float)):
    i, j = kc.tid()
    below, right = kc.min(i + 1, x.shape[0] - 1), kc.min(j + 1, x.shape[1] - 1)
    dx, dy = x[below, j] - x[i, j], x[i, right] - x[i, j]
    kc.atomic_add(out, i, {k}.5 * kc.sqrt(dx * dx + dy * dy + 1.0e-6))

"""
HEAD = "import sys\nimport time\nimport numpy as np\nimport kernelcore as kc\n\n"
# Prints the seconds that it takes until all kernels can be launched.
TAIL = """
kernels = [value for value in list(globals().values()) if isinstance(value, kc.Kernel)]
start = time.perf_counter()
report = kc.compile_all(kernels, processes=int(sys.argv[1]))
assert len(report.compiled) == len(kernels), report
for kernel in kernels:
    kernel.executable.signature
print(time.perf_counter() - start)
"""


def seconds(program: Path, processes: int) -> float:
    """What the program says in a fresh process with an empty disk cache."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, str(program), str(processes)]
        env = {**os.environ, "KC_CACHE_DIR": cache, "KC_CACHE": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(kernels: int, goals: bool) -> None:
    """Show what a module of ``kernels`` takes with one process and with two."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory, "many_kernels.py")
        program.write_text(HEAD + "".join(KERNEL.format(k=k) for k in range(kernels)) + TAIL)
        rows: dict[str, list[float]] = {"one process": [], "two processes": []}
        for _ in range(ROUNDS):
            for (_, row), processes in zip(rows.items(), (1, 2), strict=True):
                row.append(1e6 * seconds(program, processes))
    speedup = statistics.median(rows["one process"]) / statistics.median(rows["two processes"])
    goal = Goal(f"compile_all of {kernels} kernels, two processes", speedup, "x", 1.5, True)
    timings = {name: timing_of(row) for name, row in rows.items()}
    show(f"compile_all, {kernels} kernels", timings, "two processes", [goal] if goals else [])


def main() -> None:
    print(f"two threads do {free_processors():.2f} times the work of one now")
    measure(FEW, goals=False)
    measure(MANY, goals=True)


if __name__ == "__main__":
    main()
