"""Writes the page of a kernel: ``python -m tests.explain.page FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import kernelcore as kc
from tests.explain.test_explain import row_sums


def main() -> None:
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    rows, sums = np.ones((4096, 64), np.float32), np.zeros(4096, np.float32)
    kc.explain(row_sums, rows, sums).save(path)


if __name__ == "__main__":
    main()
