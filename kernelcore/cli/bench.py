"""A short benchmark of this installation: ``python -m kernelcore bench``.

Its peer runs the same kernels; ``make bench`` has others, with programs of their own.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from types import ModuleType

import kernelcore
from kernelcore.base import native
from kernelcore.cli import bench_kernels

ROUNDS = 9
SECONDS_PER_SAMPLE = 0.02
PEER, PEER_PACKAGE = "warp", "warp-lang"
# Prints the milliseconds until the package is imported, and until a kernel has run.
PROGRAM = """\
import time
import numpy as np
start = time.perf_counter()
import kernelcore as kc
imported = time.perf_counter()

@kc.kernel
def first(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = kc.sin(x[i]) * kc.exp(x[i])

kc.launch(first, 8, [np.ones(8, np.float32)], [np.zeros(8, np.float32)])
print(1e3 * (imported - start), 1e3 * (time.perf_counter() - start))
"""

Run = bench_kernels.Run


def report() -> Iterator[str]:
    """The lines of the report, as they are found."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    yield f"{native.num_threads()} threads, load average {load:.1f}; medians of {ROUNDS} rounds"
    for name, milliseconds in latency().items():
        yield f"{name:34} {milliseconds:10.2f} ms"
    peer = _peer()
    if peer is None:
        yield f"not compared with Warp, on one thread: {PEER_PACKAGE} is not installed"
    else:
        yield f"compared with Warp {peer.__version__}, which has one thread on CPUs"
    for name, make in bench_kernels.KERNELS.items():
        ours = make(kernelcore)
        contenders: dict[str, Run] = {"kernelcore": ours}
        if peer is not None:
            contenders["Warp"] = make(peer)
        yield _line(name, timed(contenders))


def latency() -> dict[str, float]:
    """Milliseconds in fresh processes: import, and import and first kernel, new and cached."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "first_kernel.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        env = {**os.environ, "KC_CACHE_DIR": os.path.join(directory, "cache"), "KC_CACHE": "1"}
        # The package may be found by the path of this process alone.
        env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)

        def run() -> tuple[float, float]:
            done = subprocess.run(
                [sys.executable, path], env=env, capture_output=True, text=True, check=True
            )
            imported, ran = done.stdout.split()
            return float(imported), float(ran)

        run()
        warm = [run() for _ in range(ROUNDS // 2)]
        env["KC_CACHE"] = "0"
        cold = [run() for _ in range(ROUNDS // 2)]
    return {
        "import": statistics.median(imported for imported, _ in warm + cold),
        "import and first kernel, new": statistics.median(ran for _, ran in cold),
        "import and first kernel, cached": statistics.median(ran for _, ran in warm),
    }


def timed(contenders: Mapping[str, Run]) -> dict[str, float]:
    """Median microseconds of one call of each contender, measured turn by turn."""
    counts: dict[str, int] = {}
    for name, run in contenders.items():
        run()
        start = time.perf_counter()
        run()
        elapsed = time.perf_counter() - start
        counts[name] = max(1, int(SECONDS_PER_SAMPLE / max(elapsed, 1e-6)))
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                run()
            samples[name].append(1e6 * (time.perf_counter() - start) / counts[name])
    return {name: statistics.median(found) for name, found in samples.items()}


def _line(name: str, found: Mapping[str, float]) -> str:
    ours = found["kernelcore"]
    peers = (f"{peer} {us:10.2f} us (x{us / ours:.1f})" for peer, us in found.items())
    return f"{name:34} {ours:10.2f} us  " + "  ".join(p for p in peers if not p.startswith("kern"))


def _peer() -> ModuleType | None:
    """Warp, if it is installed; it says nothing."""
    if importlib.util.find_spec(PEER) is None:
        return None
    found = importlib.import_module(PEER)
    found.config.quiet = True
    found.init()
    return found
