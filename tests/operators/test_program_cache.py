"""Programs of a function are found while other threads record more of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kernelcore.operators.operation import Extent
from kernelcore.operators.traced.interface import Interface
from kernelcore.operators.traced.program import Program
from kernelcore.operators.traced.program_cache import Programs


def of_function() -> None:
    """What the programs are of."""


def test_programs_that_are_added_during_a_search() -> None:
    programs = Programs(cast("Interface", SimpleNamespace(function=of_function)))
    first, second = Extent(0, 0, 0), Extent(0, 1, 0)
    known = cast("Program", SimpleNamespace(is_current=True))

    class Operand:
        @property
        def shape(self) -> tuple[int, int]:
            # As another thread does that gets its turn here.
            all_known: dict[Any, Any] = programs._known  # pyright: ignore[reportPrivateUsage]
            all_known.setdefault((first, second), {})
            return 3, 4

    programs._known.update({(first,): {}, (second,): {("4",): known}})  # pyright: ignore[reportPrivateUsage]
    assert programs.of([Operand()]) is known
