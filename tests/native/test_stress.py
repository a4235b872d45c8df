"""Threads launch kernels side by side; ``make tsan`` runs the same under ThreadSanitizer."""

from __future__ import annotations

import subprocess

from tests.helpers.environment import ROOT


def test_launches_side_by_side_give_the_sums_of_one_thread() -> None:
    done = subprocess.run(["make", "stress"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("no races\n")
