"""Runs every benchmark, each in a process of its own; results go to output/bench.json and .png.

A benchmark that fails is named at the end, and those that follow run all the same.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.bench import chart
from tests.bench.results import RESULTS_VARIABLE
from tests.helpers.environment import ROOT

PACKAGES = ("kernelcore", "numpy", "llvmlite", "warp-lang", "numba", "torch", "jax")
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
BENCH = Path(__file__).parent
OUTPUT = ROOT / "output"
# They need tools of CUDA, a GPU, or another tree to compare with, and run alone.
ON_REQUEST = frozenset({"bench_gpu", "bench_registers", "bench_trees"})


def run(scripts: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """What ``scripts`` have recorded, each entry with the name of its script, and what failed."""
    found: list[dict[str, Any]] = []
    failed: list[str] = []
    for script in scripts:
        print(f"\n== {script}", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "results")
            command = [sys.executable, "-m", f"tests.bench.{script}"]
            env = {**os.environ, RESULTS_VARIABLE: str(path)}
            done = subprocess.run(command, cwd=ROOT, env=env, check=False)
            lines = path.read_text().splitlines() if path.exists() else []
        found += [{"script": script, **json.loads(line)} for line in lines]
        if done.returncode != 0:
            failed.append(script)
    return found, failed


def machine_description() -> dict[str, str]:
    """Names and values, in the order in which they are shown."""
    found = {
        "processor": _processor(),
        "processors": str(os.cpu_count()),
        "caches": _caches(),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "python": platform.python_version(),
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }
    installed = {d.metadata["Name"].lower(): d.version for d in metadata.distributions()}
    return found | {name: installed[name] for name in PACKAGES if name in installed}


def _processor() -> str:
    if not _CPUINFO.exists():
        return platform.processor()
    rows = [line.split(":", 1) for line in _CPUINFO.read_text().split("\n\n")[0].splitlines()]
    known = {row[0].strip(): row[1].strip() for row in rows if len(row) == 2}
    numbers = [f"{n} {known[n]}" for n in ("cpu family", "model", "stepping") if n in known]
    return ", ".join([known.get("model name", platform.machine()), *numbers])


def _caches() -> str:
    """The caches that the first processor uses, with their sizes."""
    found: list[str] = []
    for index in sorted(_CACHES.glob("index*")):
        level, kind, size = ((index / n).read_text().strip() for n in ("level", "type", "size"))
        found.append(f"L{level} {kind.lower()} {size}")
    return ", ".join(found) or "unknown"


def main() -> int:
    every = {path.stem for path in BENCH.glob("bench_*.py")}
    machine = machine_description()
    found, failed = run(sys.argv[1:] or sorted(every - ON_REQUEST))
    results = {"machine": machine, "failed": failed, "results": found}
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    chart.draw(results, OUTPUT / "bench.png")
    goals = [g for entry in results["results"] for g in entry["goals"]]
    missed = [g["name"] for g in goals if not g["met"]]
    print(f"\n{len(goals) - len(missed)} of {len(goals)} goals met; missed: {'; '.join(missed)}")
    print(f"written to {OUTPUT / 'bench.json'} and {OUTPUT / 'bench.png'}")
    if failed:
        print(f"failed, so that figures are missing: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
