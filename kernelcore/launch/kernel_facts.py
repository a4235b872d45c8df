"""Facts of a kernel that its derivatives need, kept in the disk cache beside its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelcore.base.dataclass import replace
from kernelcore.base.lazy import Deferred
from kernelcore.base.literal import is_like
from kernelcore.base.nesting import refusing_deep_nesting
from kernelcore.compiler.kernel_cache import recall
from kernelcore.language.effect import Effect

# Derivatives that the disk cache knows are launched without the compiler.
if TYPE_CHECKING:
    from kernelcore.frontend import doubts, specialize
    from kernelcore.ir.core import Func
    from kernelcore.launch.kernel import Kernel
    from kernelcore.passes import pipeline
    from kernelcore.passes.access import effects as access
    from kernelcore.passes.access import final_elements, named_rows
else:
    doubts = Deferred("kernelcore.frontend.doubts")
    specialize = Deferred("kernelcore.frontend.specialize")
    pipeline = Deferred("kernelcore.passes.pipeline")
    access = Deferred("kernelcore.passes.access.effects")
    final_elements = Deferred("kernelcore.passes.access.final_elements")
    named_rows = Deferred("kernelcore.passes.access.named_rows")


def effects(kernel: Kernel) -> tuple[Effect, ...]:
    """What ``kernel`` does to each parameter of the IR."""

    def find() -> list[tuple[bool, ...]]:
        return [tuple(effect) for effect in access.effects(kernel.func)]

    def is_right(rows: Any) -> bool:
        return is_like(rows, [(bool,) * 3]) and len(rows) == len(kernel.leaves)

    rows = recall(lambda: kernel.entry, "effects", is_right, find)
    return tuple(Effect(*row) for row in rows)


def at_addresses(kernel: Kernel) -> Effect:
    """What ``kernel`` does to arrays that it makes of addresses."""

    def find() -> tuple[bool, ...]:
        return tuple(access.effect_at_addresses(kernel.func))

    def is_right(row: Any) -> bool:
        return is_like(row, (bool,) * 3)

    return Effect(*recall(lambda: kernel.entry, "at_addresses", is_right, find))


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


def normal_form(kernel: Kernel) -> Func:
    """The kernel as normalized IR, which says what rows it names.

    Raises:
        KernelError: The source is not in the kernel language; says where.
    """
    # The text that the disk cache keeps has no such hints.
    return named_rows.with_rows(_without_rows(kernel))


def _without_rows(kernel: Kernel) -> Func:
    """The kernel as normalized IR, of the disk cache or of its source."""
    entry = kernel.entry
    known = entry and entry.load_func()
    if known is not None:
        return known
    types = None if kernel.is_generic else kernel.parameter_types
    doubted = doubts.raised()
    with kernel.names.reading():
        func = specialize.specialize_kernel(kernel.pyfunc, types)
        with refusing_deep_nesting(f"'{func.name}'", func.loc):
            func = pipeline.normalize(replace(func, flush_denormals=kernel.flush_denormals))
    if entry is None:
        return func
    if doubts.raised() > doubted:
        kernel.__dict__["entry"] = None
    elif kernel.find_entry() == entry:
        entry.store_func(func)
    else:
        # What it reads has changed meanwhile: launches follow.
        kernel.__dict__["entry"] = None
        for name in ("executable", "plain_executable", "effects", "at_addresses", "losses"):
            kernel.__dict__.pop(name, None)
        kernel.cpu_fast_path = kernel.gpu_fast_path = None
        launched = kernel.launched_adjoints, kernel.launched_jvps
        for derived in (kernel.adjoints, *launched, kernel.tape_plans, kernel.single_tape_plans):
            derived.clear()
    return func
