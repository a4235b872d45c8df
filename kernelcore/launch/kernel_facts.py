"""Facts of a kernel that its derivatives need, kept in the disk cache beside its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelcore.base.lazy import Deferred
from kernelcore.base.literal import is_like
from kernelcore.compiler.kernel_cache import recall
from kernelcore.language.effect import Effect

# Derivatives that the disk cache knows are launched without the compiler.
if TYPE_CHECKING:
    from kernelcore.launch.kernel import Kernel
    from kernelcore.passes.access import effects as access
    from kernelcore.passes.access import final_elements
else:
    access = Deferred("kernelcore.passes.access.effects")
    final_elements = Deferred("kernelcore.passes.access.final_elements")


def effects(kernel: Kernel) -> tuple[Effect, ...]:
    """What ``kernel`` does to each parameter of the IR."""

    def find() -> list[tuple[bool, ...]]:
        return [tuple(effect) for effect in access.effects(kernel.func)]

    def is_right(rows: Any) -> bool:
        return is_like(rows, [(bool,) * 3]) and len(rows) == len(kernel.leaves)

    rows = recall(lambda: kernel.entry, "effects", is_right, find)
    return tuple(Effect(*row) for row in rows)


def losses(kernel: Kernel) -> frozenset[int]:
    """The parameters of the IR whose arrays no longer hold what a launch loaded from them."""
    in_place = [i for i, effect in enumerate(kernel.effects) if effect.loads and effect.writes]
    if not in_place:
        return frozenset()

    def find() -> list[int]:
        accesses, params = access.AccessMap(kernel.func), kernel.func.params
        return [i for i in in_place if not final_elements.has_what_was_loaded(accesses, params[i])]

    def is_right(found: Any) -> bool:
        return is_like(found, [int]) and set(found) <= set(in_place)

    return frozenset(recall(lambda: kernel.entry, "losses", is_right, find))
