"""Which device the suites run on: ``KC_TEST_DEVICE``, by default the processor."""

from __future__ import annotations

import os

DEVICE = os.environ.get("KC_TEST_DEVICE", "cpu")
IS_CPU = DEVICE == "cpu"
ORDINAL = 0 if IS_CPU else int(DEVICE.partition(":")[2] or 0)
