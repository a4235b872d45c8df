"""How often loops run."""

from __future__ import annotations

from kernelcore.builtins.reference import trip_count
from kernelcore.ir.core import Const, Eqn


def known_trips(loop: Eqn) -> int | None:
    """The iterations of a FOR loop whose bounds are constants; None of others."""
    bounds = [int(a.value) for a in loop.inputs[:3] if isinstance(a, Const)]
    return trip_count(bounds[0], bounds[1], bounds[2]) if len(bounds) == 3 else None
