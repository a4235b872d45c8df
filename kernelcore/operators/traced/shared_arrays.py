"""Launches of which several parameters are one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelcore.launch.kernel import Kernel
from kernelcore.operators.traced.tracers import Leaf, refuse
from kernelcore.passes.access.effects import AccessMap


def refuse_shared(kernel: Kernel, given: Sequence[Any]) -> None:
    """Refuse a launch with one array for a parameter that it writes and for another one.

    It is recorded where it does what it would do to a copy of the array in the other parameter.

    Raises:
        KernelArgumentError: Another thread may access what one writes, or a thread loads an element
            after it wrote it.
    """
    params = kernel.func.params
    pairs = [
        (loaded, written)
        for written, effect in enumerate(kernel.effects)
        if effect.writes and isinstance(given[written], Leaf)
        for loaded, other in enumerate(given)
        if loaded != written and other is given[written]
    ]
    if not pairs:
        return
    accesses = AccessMap(kernel.func)
    for loaded, written in pairs:
        if not accesses.may_be_one(params[loaded], params[written]):
            names = f"'{params[loaded].name}' and '{params[written].name}'"
            raise refuse(
                f"{kernel.name}(): {names} are one array, which the kernel writes and does not "
                "only access element by element",
                "give each parameter its own array",
            )
