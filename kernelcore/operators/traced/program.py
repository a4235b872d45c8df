"""Program: the launches of a Python function as a list, described without any framework.

    operands  slots 0 to n - 1
    step      an Operation on slots, whose visible results are the next slots
    outputs   the slots that a caller gets

A slot is bound once: a launch that writes an array gives a new slot, so a program is a pure
function and every step of it is one. It has no derivative of its own: an adapter runs the steps as
operators of its framework, which differentiates, batches and schedules lists of operators already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kernelcore.operators.operation import Extent, Operand, Operation, Result

# Runs an operation on values of a framework, and returns its visible results.
Apply = Callable[[Operation, list[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Slot:
    """A value that a step takes: an operand of the program, or a result of an earlier step."""

    index: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, or an array of components, that a step takes."""

    value: Any


# An Extent is one of an operand of the program, as a number.
Given = Slot | Literal | Extent


@dataclass(frozen=True, slots=True)
class Step:
    """One launch.

    Attributes:
        operation: What it computes; its grid and its shapes follow from its own operands.
        given: Per operand of ``operation``.
        dead: Slots that no later step and no output uses.
    """

    operation: Operation
    given: tuple[Given, ...]
    dead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number that the function read while it was recorded, so the program is for it alone.

    Attributes:
        source: An operand that is a scalar, or an extent of one that is an array.
        value: What it was.
    """

    source: int | Extent
    value: bool | int | float


@dataclass(frozen=True, eq=False)
class Program:
    """What a function launches.

    Attributes:
        name: Of the function.
        operands: What a caller gives, in order: one per leaf of a parameter.
        results: What a caller gets; shapes in terms of ``operands``.
        steps: In order.
        outputs: The slots that hold ``results``, all different and none an operand.
        fixed: What must be as it was when the function was recorded.
    """

    name: str
    operands: tuple[Operand, ...]
    results: tuple[Result, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    fixed: tuple[Fixed, ...] = field(default=())

    def __repr__(self) -> str:
        return f"<program {self.name}: {len(self.steps)} launches>"

    @cached_property
    def key(self) -> str:
        """What it computes, as text: equal keys, equal programs, in every process."""
        rows = [(s.operation.key, tuple(map(repr, s.given))) for s in self.steps]
        return repr((self.operands, self.results, rows, self.outputs))

    def run(self, values: Sequence[Any], apply: Apply) -> tuple[Any, ...]:
        """The results for ``values``, one per operand; temporaries are dropped when they are dead.

        Args:
            values: Arrays of a framework, which have a ``shape``, and numbers.
            apply: Runs an operation.
        """
        slots = list(values)
        for step in self.steps:
            given = [
                slots[g.index]
                if isinstance(g, Slot)
                else g.value
                if isinstance(g, Literal)
                else values[g.operand].shape[g.axis]
                for g in step.given
            ]
            slots += apply(step.operation, given)
            for index in step.dead:
                slots[index] = None
        return tuple([slots[i] for i in self.outputs])


def with_lifetimes(steps: Sequence[Step], num_operands: int, outputs: Sequence[int]) -> list[Step]:
    """``steps`` with the slots that each uses last."""
    used = set(outputs)
    count = num_operands + sum(s.operation.visible for s in steps)
    found: list[Step] = []
    for step in reversed(steps):
        made = range(count - step.operation.visible, count)
        count -= step.operation.visible
        touched = {g.index for g in step.given if isinstance(g, Slot)} | set(made)
        found.append(Step(step.operation, step.given, tuple(sorted(touched - used))))
        used |= touched
    return found[::-1]
