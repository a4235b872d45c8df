"""Malformed DLPack capsules and array interfaces are refused; none ends the process."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.helpers.environment import ROOT

INPUTS = os.environ.get("KC_FUZZ_CAPSULES", "3000")
SEED = os.environ.get("KC_FUZZ_SEED", "0")


def test_malformed_capsules_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.capsules", SEED, INPUTS],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    count, _, taken = done.stdout.partition(" inputs, ")
    # Neither all sound nor all broken: both sides of every check are reached.
    assert int(count) // 20 < int(taken.split()[0]) < int(count) // 2
