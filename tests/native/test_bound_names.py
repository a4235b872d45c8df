"""Names whose look-up runs Python code, and so other threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernelcore import _native


class Computed:
    """An object whose attribute ``x`` a function computes."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function

    @property
    def x(self) -> object:
        return self.function()


def test_an_interrupt_while_names_are_looked_up_is_raised() -> None:
    def interrupted() -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _native.BoundNames([(Computed(interrupted), "x", (1,))]).hold()


def test_an_attribute_that_fails_stands_for_nothing() -> None:
    def failed() -> object:
        raise ValueError

    assert _native.BoundNames([(Computed(failed), "x", None)]).hold()


def test_names_that_are_replaced_while_they_are_looked_up_do_not_hold() -> None:
    found = object()

    def replaced() -> object:
        names.replace([])
        return found

    rows: list[tuple[object, str, tuple[object] | None]] = [(Computed(replaced), "x", (found,))]
    names = _native.BoundNames(rows)
    rows.clear()
    assert not names.hold()
    assert names.hold()
