"""Writes ``kernelcore/__init__.pyi``, the public names for type checkers, where a build wants it.

A running program imports names on first use, as ``kernelcore/_exports.py`` lists them. This script
reads that list without importing kernelcore, whose native module may not be built yet.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "kernelcore"
# The modules whose public names are all names of kernelcore.
WHOLE = ["language.composite_types"]
WHOLE += [
    f"builtins.{name}"
    for name in (
        *("arithmetic", "curlnoise", "decomposition", "elementary", "interpolate", "logic"),
        *("matrix", "noise", "quaternion", "random", "search", "spatial", "transform", "vector"),
    )
]


def listed(name: str) -> dict[str, str]:
    """Names by module, as the table ``name`` of ``_exports.py`` has them."""
    for node in ast.parse((PACKAGE / "_exports.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            assert isinstance(node.value, ast.Call)
            return ast.literal_eval(node.value.args[0])
    raise KeyError(name)


def stub() -> str:
    """The text of the stub."""
    lines = [f"from kernelcore.{module} import *" for module in WHOLE]
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        if isinstance(node, ast.ImportFrom) and all(a.asname == a.name for a in node.names):
            lines.append(ast.unparse(node))
    for module, names in listed("HOMES").items():
        lines += [f"from {module} import {name} as {name}" for name in names.split()]
    lines += ["from typing import Any", "bool = boolean"]
    for names in listed("ADAPTERS").values():
        lines += [f"{name}: Any" for name in names.split()]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(stub())
