"""The library: every function that is written in the kernel language, by its public name."""

from __future__ import annotations

import importlib

from kernelcore.builtins import table
from kernelcore.builtins.library import LIBRARY as LIBRARY

# Functions call operations of the table, which is complete from here on.
assert table.OPS

# Declaring them is what these modules are for.
MODULES = (
    "vector",
    "matrix",
    "quaternion",
    "transform",
    "spatial",
    "decomposition",
    "search",
    "random",
    "noise",
    "curlnoise",
    "interpolate",
)

for _name in MODULES:
    importlib.import_module(f"kernelcore.builtins.{_name}")
