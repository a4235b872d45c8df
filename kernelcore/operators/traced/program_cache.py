"""Programs: the programs of one function, by the numbers that it read while it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelcore.operators.operation import Extent
from kernelcore.operators.python_run import warn_of_compiled
from kernelcore.operators.traced.interface import Interface
from kernelcore.operators.traced.program import Program
from kernelcore.operators.traced.trace import plain_number, record


class Programs:
    """The programs of a function, each recorded when it is first needed."""

    def __init__(self, interface: Interface) -> None:
        self.interface = interface
        # By the sources of the numbers that a program is fixed to, then by the numbers.
        self._known: dict[tuple[int | Extent, ...], dict[tuple[str, ...], Program]] = {}

    def of(self, values: Sequence[Any]) -> Program:
        """The program for ``values``, which are as for ``record``."""
        name = self.interface.function.__name__
        warn_of_compiled(name, "a function of several kernels", "call it with NumPy arrays")
        # A copy: other threads add programs meanwhile.
        for sources, programs in self._known.copy().items():
            key = tuple(_key_at(s, values) for s in sources)
            found = programs.get(key)
            if found is not None and found.is_current:
                return found
            programs.pop(key, None)
        program = record(self.interface, values)
        key = tuple(map(repr, program.fixed.values()))
        self._known.setdefault(tuple(program.fixed), {})[key] = program
        return program


def _key_at(source: int | Extent, values: Sequence[Any]) -> str:
    """The number at ``source`` as part of a key; one that is symbolic is settled here."""
    if isinstance(source, Extent):
        return repr(int(values[source.operand].shape[source.axis]))
    value = values[source]
    # Not the number itself: -0.0 equals 0.0, and True equals 1.
    return repr(None if value is None else plain_number(value))
