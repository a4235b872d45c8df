"""Records what NVIDIA Warp computes for programs: ``python -m tests.compat.record [NAME ...]``."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.compat import array_programs as array_programs
from tests.compat import chosen_array_programs as chosen_array_programs
from tests.compat import example_programs as example_programs
from tests.compat import expression_programs as expression_programs
from tests.compat import geometry_programs as geometry_programs
from tests.compat import host_programs as host_programs
from tests.compat import language_programs as language_programs
from tests.compat import maths_programs as maths_programs
from tests.compat import runtime_programs as runtime_programs
from tests.compat import struct_array_programs as struct_array_programs
from tests.compat import struct_programs as struct_programs
from tests.compat import tape_programs as tape_programs
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


def _run(name: str) -> list[Any] | str:
    """The results of a program, or why Warp refuses it."""
    warp = importlib.import_module("warp")
    for module in ("autograd", "optim"):
        importlib.import_module(f"warp.{module}")
    warp.config.quiet = True
    try:
        return as_lists(PROGRAMS[name](warp))
    except Exception as error:  # noqa: BLE001
        # Errors of Warp do not come back from another process.
        return f"{name}: {error!r}"


def main() -> int:
    names = sys.argv[1:] or list(PROGRAMS)
    known = json.loads(FILE.read_text()) if sys.argv[1:] else {}
    # A process each: Warp compiles all kernels of a file again for each that is declared.
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        made = dict(zip(names, pool.map(_run, names, chunksize=1), strict=True))
    failed = [text for text in made.values() if isinstance(text, str)]
    found = known | {name: m for name, m in made.items() if not isinstance(m, str)}
    rows = [f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found)]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    print("\n".join([f"{len(made) - len(failed)} of {len(made)} recorded", *failed]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
