"""Runs every benchmark, each in a process of its own; results go to output/bench.json and .png."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench import chart
from tests.bench.machine import description
from tests.bench.results import RESULTS_VARIABLE

BENCH = Path(__file__).parent
ROOT = BENCH.parents[1]
OUTPUT = ROOT / "output"


def run(scripts: list[str]) -> list[dict[str, Any]]:
    """What ``scripts`` have recorded, each entry with the name of its script."""
    found: list[dict[str, Any]] = []
    for script in scripts:
        print(f"\n== {script}", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "results")
            command = [sys.executable, "-m", f"tests.bench.{script}"]
            env = {**os.environ, RESULTS_VARIABLE: str(path)}
            subprocess.run(command, cwd=ROOT, env=env, check=True)
            lines = path.read_text().splitlines() if path.exists() else []
        found += [{"script": script, **json.loads(line)} for line in lines]
    return found


def main() -> None:
    wanted = sys.argv[1:] or sorted(path.stem for path in BENCH.glob("bench_*.py"))
    machine = description()
    results = {"machine": machine, "results": run(wanted)}
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    chart.draw(results, OUTPUT / "bench.png")
    goals = [g for entry in results["results"] for g in entry["goals"]]
    missed = [g["name"] for g in goals if not g["met"]]
    print(f"\n{len(goals) - len(missed)} of {len(goals)} goals met; missed: {'; '.join(missed)}")
    print(f"written to {OUTPUT / 'bench.json'} and {OUTPUT / 'bench.png'}")


if __name__ == "__main__":
    main()
