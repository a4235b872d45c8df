"""Threads launch kernels side by side; ``make tsan`` runs the same under ThreadSanitizer."""

from __future__ import annotations

import subprocess

from tests.helpers.environment import ROOT


def test_launches_side_by_side_give_the_sums_of_one_thread() -> None:
    # Run by ``make test``, make says which directory it leaves, behind what the program prints.
    command = ["make", "--no-print-directory", "stress"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("no races\n")
