"""The framework that an array belongs to, found without importing any framework."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from kernelcore._native import ArrayMemory
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.indexed_array import IndexedArray
from kernelcore.runtime.structs import StructValue

# The types of arrays by framework: module, then the names of types in it. An array of a framework
# exists only where its module was imported.
_TYPES = {
    "torch": (("torch", "Tensor"),),
    "jax": (("jax", "Array"), ("jax.core", "Tracer")),
    "paddle": (("paddle", "Tensor"), ("paddle.pir", "Value")),
}
_WORDS = {
    "torch": "a torch tensor",
    "jax": "a JAX array",
    "paddle": "a Paddle tensor",
    "numpy": "a NumPy array",
    "kernelcore": "a kernelcore array",
}
_known: dict[type, str | None] = {}


def framework_of(type_: type) -> str | None:
    """The framework that arrays of ``type_`` belong to; None if it is no type of arrays."""
    if type_ not in _known:
        _known[type_] = _find(type_)
    return _known[type_]


# torch.compile calls it while it captures, and takes the result for a constant.
framework_of._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def _find(type_: type) -> str | None:
    if issubclass(type_, np.ndarray):
        return "numpy"
    if issubclass(type_, Array | IndexedArray | ArrayMemory):
        return "kernelcore"
    for framework, rows in _TYPES.items():
        for module, name in rows:
            found = getattr(sys.modules.get(module), name, None)
            if found is not None and issubclass(type_, found):
                return framework
    return None


def first_framework(values: Iterable[Any]) -> str | None:
    """The framework of the first array in ``values``, which may be structs of arrays.

    NumPy arrays count where there are no others. torch.compile follows it.
    """
    first = None
    for value in values:
        found = framework_of(value.__class__)
        if found is None:
            found = first_framework(parts_of(value))
        if found is not None and found != "numpy":
            return found
        first = first or found
    return first


def parts_of(given: Any) -> Iterable[Any]:
    """The parts of a struct; nothing of a number."""
    if isinstance(given, (tuple, list)):
        return cast("Sequence[Any]", given)
    if isinstance(given, Mapping):
        return cast("Mapping[str, Any]", given).values()
    if isinstance(given, StructValue):
        fields: Any = getattr(given, "_values", None)
        if fields is not None:
            return fields.values()
    if hasattr(given, "__dict__") and not isinstance(given, (int, float, str)):
        return vars(given).values()
    return ()


def arrays_in(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The arrays in argument ``name``: what errors call each, and its framework."""
    found = framework_of(value.__class__)
    if found is not None:
        yield name, found
        return
    for part in parts_of(value):
        yield from arrays_in(name, part)


def mixed_frameworks(named: Mapping[str, Any]) -> str | None:
    """What is wrong with arguments by name that are arrays of two frameworks; None if nothing is.

    NumPy arrays may go with those of JAX, whose own functions take both.
    """
    arrays = [found for name, value in named.items() for found in arrays_in(name, value)]
    if not arrays:
        return None
    kinds = {kind for _, kind in arrays}
    if len(kinds) == 1 or kinds == {"jax", "numpy"}:
        return None
    name, kind = arrays[0]
    other, found = next(row for row in arrays if row[1] != kind)
    return (
        f"expected arrays of one framework, found {_WORDS[kind]} in argument '{name}' and "
        f"{_WORDS[found]} in argument '{other}'"
    )
