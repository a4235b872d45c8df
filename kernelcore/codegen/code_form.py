"""The forms of a kernel that code for processors is generated from."""

from __future__ import annotations

from functools import lru_cache

from kernelcore.codegen.analysis.carried_elements import CarriedElements, carry_elements
from kernelcore.codegen.analysis.costly_values import with_costly_records
from kernelcore.codegen.analysis.small_rows import rows_as_elements
from kernelcore.codegen.simd.contraction import contract_sums
from kernelcore.codegen.simd.gathering import choose_detours
from kernelcore.codegen.simd.strategy import loops_in_parts
from kernelcore.ir.core import Func


@lru_cache(maxsize=4)
def code_form(func: Func) -> Func:
    """``func``, which has a plan, with what suits processors better.

    It records more, has elements in place of small rows, and contracted sums.
    """
    return contract_sums(rows_as_elements(with_costly_records(func)))


@lru_cache(maxsize=4)
def carried_form(form: Func) -> CarriedElements | None:
    """A code form with elements that loops carry.

    None if no loop does, if launches may run other code for sums or another axis, or if any sum
    would be added in another order.
    """
    found = carry_elements(form)
    if found is None or choose_detours(form) != (None, None):
        return None
    return found if _orders(found.func) == _orders(form) else None


def running_form(form: Func) -> Func:
    """What launches of a code form run, unless arrays share memory or a loop has no iteration."""
    found = carried_form(form)
    return form if found is None else found.func


def _orders(func: Func) -> list[tuple[object, ...]]:
    """What decides in which order the loops of ``func`` that may collect in parts do so."""
    return [
        (loop.collects, loop.is_ordered_if_short, loop.most_in_panels)
        for loop in loops_in_parts(func).values()
    ]
