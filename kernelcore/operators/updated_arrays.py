"""Arrays that calls update in place: what they may share with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kernelcore.base.errors import KernelArgumentError
from kernelcore.operators.forms.frameworks import parts_of
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.shared_elements import (
    ElementPlaces,
    repeats_elements,
    share_elements,
)

# The error for the array of a name: what was expected, what was found, and the remedy.
Refuse = Callable[[str, str, str, str], KernelArgumentError]


def require_apart(arrays: Sequence[tuple[str, ElementPlaces]], refuse: Refuse) -> None:
    """Refuse arrays to be updated of which an element would be written twice.

    Raises:
        KernelArgumentError: What ``refuse`` makes, for the first of them.
    """
    for k, (name, places) in enumerate(arrays):
        if repeats_elements(places):
            raise refuse(
                name,
                "an array to be written",
                "one of which several elements share memory",
                "give a copy",
            )
        for other, taken in arrays[:k]:
            if share_elements(places, taken):
                raise refuse(
                    name,
                    "an array to be written",
                    f"one that shares elements with '{other}', which is written too",
                    "give a copy of one of them",
                )


def require_updatable(names: Sequence[str], given: Mapping[str, Any], refuse: Refuse) -> None:
    """Refuse arguments ``names`` that a call cannot update, each element once.

    Args:
        names: Parameters whose arrays of NumPy or kernelcore are to be updated.
        given: Arguments by the name of the parameter, or of its leaf.
        refuse: Makes the error.

    Raises:
        KernelArgumentError: An array is read-only, or shares elements.
    """
    arrays = [
        (name, array)
        for name, value in given.items()
        if name.split(".")[0] in names
        for array in _arrays_in(value)
    ]
    for name, array in arrays:
        if array.is_read_only if isinstance(array, Array) else not array.flags.writeable:
            raise refuse(name, "an array to be written", "a read-only one", "pass a copy")
    require_apart([(name, _places(array)) for name, array in arrays], refuse)


def apart_from(given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """``given``, in which copies stand for kernelcore arrays that share elements with ``names``.

    A kernel then reads what the arrays held before the call, whatever of it is updated.
    """
    updated = [_places(a) for name in names if name in given for a in _arrays_in(given[name])]
    return {
        name: value.clone()
        if isinstance(value, Array)
        and name not in names
        and any(share_elements(ElementPlaces.of_memory(value), one) for one in updated)
        else value
        for name, value in given.items()
    }


def _arrays_in(value: Any) -> Iterator[Any]:
    """The arrays in an argument, which may be a struct of arrays."""
    if isinstance(value, Array | np.ndarray):
        yield value
    else:
        for part in parts_of(value):
            yield from _arrays_in(part)


def _places(array: Any) -> ElementPlaces:
    is_own = isinstance(array, Array)
    return ElementPlaces.of_memory(array) if is_own else ElementPlaces.of_numpy(array)
