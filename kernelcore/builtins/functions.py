"""The library: every function that is written in the kernel language, by its public name."""

from __future__ import annotations

import importlib

from kernelcore.builtins import table
from kernelcore.builtins.library import LIBRARY as LIBRARY

# The library calls operations of the table, so the table is loaded first.
assert table.OPS

# Importing these modules declares the library.
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
