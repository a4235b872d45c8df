"""Effect: what a kernel does to one of its parameters."""

from __future__ import annotations

from typing import NamedTuple


class Effect(NamedTuple):
    """What a kernel does to one parameter; values have none."""

    loads: bool = False
    stores: bool = False
    accumulates: bool = False

    @property
    def writes(self) -> bool:
        return self.stores or self.accumulates
