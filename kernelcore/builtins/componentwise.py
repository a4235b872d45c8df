"""Entries of the table on vectors and matrices of the host, component by component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelTypeError
from kernelcore.builtins.reference import evaluate
from kernelcore.ir.op import Op
from kernelcore.language.composite import Composite, value_class
from kernelcore.language.conversion import describe, take_scalar
from kernelcore.language.types import TYPE_CLASSES, boolean


def on_components(op: Op, arguments: Mapping[str, Any]) -> Composite:
    """``op`` on every component; a scalar is used for all of them, as in a kernel.

    Args:
        op: An entry of the table.
        arguments: By the names of its parameters; at least one is a composite.

    Raises:
        KernelTypeError: Composites of several types, neither vectors nor matrices, or with
            components that ``op`` does not take.
    """
    composites = [a for a in arguments.values() if isinstance(a, Composite)]
    types = list(dict.fromkeys(c.kernel_type for c in composites))
    first = types[0]
    if len(types) > 1 or first.kind not in ("vector", "matrix"):
        given = " and ".join(_name(value) for value in arguments.values())
        remedy = "both sides must have the same type" if len(types) > 1 else "apply it to the parts"
        raise KernelTypeError(f"{op.name}() is not defined for {given}", remedy=remedy)
    parts: list[Any] = []
    for name, value in arguments.items():
        if isinstance(value, Composite):
            if first.scalar not in TYPE_CLASSES[op.params[name]]:
                raise KernelTypeError(
                    f"{op.name}() is not defined for {_name(value)}",
                    remedy=f"its components have to be of {op.params[name]}",
                )
            parts.append(np.asarray(value))
        else:
            is_condition = isinstance(value, bool | np.bool_)
            parts.append(value if is_condition else take_scalar(first.scalar, value))
    assert op.ref is not None
    with np.errstate(all="ignore"):
        found = np.asarray(evaluate(op.ref, parts))
    scalar = boolean if op.result == "Bool" else first.scalar
    return value_class(replace(first, dtype=scalar))(found.astype(scalar.numpy))


def _name(value: object) -> str:
    return str(value.kernel_type) if isinstance(value, Composite) else describe(value)
