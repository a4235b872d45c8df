"""From the start of a process to the first result of a kernel that the disk cache knows.

Every sample is a process of its own, in turns: Python, Python with NumPy, kernelcore, Warp, JAX.
They keep bytecode, in a folder of this run that a first process of each kind fills.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.results import Goal, show
from tests.bench.timing import Timing, timing_of
from tests.helpers.environment import ROOT

ROUNDS = 21
# Milliseconds over Python with NumPy; of the time of Warp; milliseconds; milliseconds over JAX.
START_GOAL, WARP_GOAL, FURTHER_GOAL = 40.0, 0.3, 3.0
JIT_GOAL = 200.0
MIX = """\
@lib.kernel
def mix(x: lib.array(dtype=float), y: lib.array(dtype=float)):
    i = lib.tid()
    total = float(0.0)
    for k in range(8):
        total += lib.sin(x[i] * float(k)) * lib.exp(-x[i])
    y[i] = total
"""
KERNELS = """
import time
import numpy as np
import {module} as lib
{setup}

@lib.kernel
def scale(x: lib.array(dtype=float), y: lib.array(dtype=float), a: float):
    i = lib.tid()
    y[i] = 2.0 * x[i] + a

{mix}
x, y = {array}(np.ones(4, np.float32)), {array}(np.zeros(4, np.float32))
lib.launch(scale, 4, [x], [y, 1.0], device="cpu")
assert y{result}[0] == 3.0
start = time.perf_counter()
lib.launch(mix, 4, [x], [y], device="cpu")
print(time.perf_counter() - start)
"""
# The same in jax.jit, by a kernel and by jax.numpy.
JITTED = """
import jax
import jax.numpy as jnp
jax.config.update("jax_platforms", "cpu")
{kernel}
print(float(jax.jit(mix)(jnp.ones(1024, jnp.float32))[0]))
"""
MIX_OF_JNP = """
def mix(x):
    return sum(jnp.sin(x * float(k)) * jnp.exp(-x) for k in range(8))
"""
MIX_OF_OURS = f"""
import kernelcore as lib

@lib.op(outputs="y")
{MIX}"""
WARP_SETUP = "lib.config.quiet = True\nlib.config.kernel_cache_dir = {!r}"
PYTHON, NUMPY, OURS, WARP = "Python", "Python with NumPy", "kernelcore", "Warp"
JAX, JAX_OURS = "jax.jit of jax.numpy", "jax.jit of a kernel"
# Of processor time, which other programs of the machine change less.
BUSY = ", processor"
FURTHER = "a further kernel of kernelcore"


def programs(folder: Path) -> dict[str, Path]:
    """The program of each contender."""
    setup = WARP_SETUP.format(str(folder / "warp"))
    array = "(lambda a: lib.array(a, dtype=float, device='cpu'))"
    texts = {
        PYTHON: "",
        NUMPY: "import numpy",
        OURS: KERNELS.format(module="kernelcore", mix=MIX, setup="", array="", result=""),
        WARP: KERNELS.format(module="warp", mix=MIX, setup=setup, array=array, result=".numpy()"),
        JAX: JITTED.format(kernel=MIX_OF_JNP),
        JAX_OURS: JITTED.format(kernel=MIX_OF_OURS),
    }
    found = {name: folder / f"start_{place}.py" for place, name in enumerate(texts)}
    for name, path in found.items():
        path.write_text(texts[name])
    return found


def processor_time() -> float:
    """Seconds that the processes which this one has started were running."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured() -> dict[str, Timing]:
    """Microseconds by contender."""
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {
            **os.environ,
            "KC_CACHE": "1",
            "KC_CACHE_DIR": str(folder / "kernels"),
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        contenders = programs(folder)
        # The first rounds compile kernels and keep bytecode.
        for round_ in range(-2, ROUNDS):
            for contender, path in contenders.items():
                command = [sys.executable, str(path)]
                start, busy = time.perf_counter(), processor_time()
                done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
                elapsed, busy = time.perf_counter() - start, processor_time() - busy
                if round_ >= 0:
                    samples.setdefault(contender, []).append(1e6 * elapsed)
                    samples.setdefault(contender + BUSY, []).append(1e6 * busy)
                if round_ >= 0 and contender == OURS:
                    samples.setdefault(FURTHER, []).append(1e6 * float(done.stdout))
    return {contender: timing_of(found) for contender, found in samples.items()}


def main() -> None:
    timings = measured()
    over = (timings[OURS].median - timings[NUMPY].median) / 1e3
    busy = (timings[OURS + BUSY].median - timings[NUMPY + BUSY].median) / 1e3
    jitted = (timings[JAX_OURS + BUSY].median - timings[JAX + BUSY].median) / 1e3
    goals = [
        Goal("over Python with NumPy, of the processor", busy, "ms", START_GOAL),
        Goal("over Python with NumPy", over, "ms", START_GOAL),
        Goal("of the time of Warp", timings[OURS].median / timings[WARP].median, "", WARP_GOAL),
        Goal("of a kernel over jax.numpy in jax.jit, of the processor", jitted, "ms", JIT_GOAL),
        Goal(FURTHER, timings[FURTHER].median / 1e3, "ms", FURTHER_GOAL),
    ]
    show("start of a process to the first result of a known kernel", timings, OURS, goals)


if __name__ == "__main__":
    main()
