"""Where the repository and its tests lie, and which device the suites run on."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"


DEVICE = os.environ.get("KC_TEST_DEVICE", "cpu")
IS_CPU = DEVICE == "cpu"
ORDINAL = 0 if IS_CPU else int(DEVICE.partition(":")[2] or 0)
