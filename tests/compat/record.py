"""Records what NVIDIA Warp computes for the programs: ``python -m tests.compat.record``."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.compat import array_programs as array_programs
from tests.compat.programs import PROGRAMS

FILE = Path(__file__).parent / "results_of_warp.json"


def as_lists(found: Any) -> list[Any]:
    """Results of a program as lists; NaN and infinities by name."""
    arrays = found if isinstance(found, tuple) else (found,)
    return [_plain(np.asarray(a)) for a in arrays]


def _plain(array: np.ndarray[Any, Any]) -> Any:
    if array.ndim:
        return [_plain(a) for a in array]
    value = array.item()
    is_special = isinstance(value, float) and not np.isfinite(value)
    return repr(value) if is_special else value


def main() -> None:
    warp = importlib.import_module("warp")
    importlib.import_module("warp.optim")
    warp.config.quiet = True
    found = {name: as_lists(run(warp)) for name, run in PROGRAMS.items()}
    rows = [f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found)]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
