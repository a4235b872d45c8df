"""The sealed table: every built-in by its public name, and every PURE Op."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kernelcore.builtins.declare import Builtin, registering
from kernelcore.ir.op import Op

with registering() as _declared:
    from kernelcore.builtins import arithmetic, elementary, logic

    _ = arithmetic, elementary, logic

# Operations that the frontend emits for what has another form in the language.
with registering() as _hidden:
    from kernelcore.builtins import bits

    _ = bits

OPS: Mapping[str, Op] = MappingProxyType(
    {name: entry.op for name, entry in (_declared | _hidden).items()}
)
BUILTINS: Mapping[str, Builtin[..., Any]] = MappingProxyType({**_declared, "rint": arithmetic.rint})
