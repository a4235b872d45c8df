"""Runs every benchmark, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent
ROOT = BENCH.parents[1]


def main() -> None:
    for script in sorted(BENCH.glob("bench_*.py")):
        print(f"\n== {script.stem}", flush=True)
        subprocess.run([sys.executable, "-m", f"tests.bench.{script.stem}"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
