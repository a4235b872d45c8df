"""Program: the launches of a Python function as a list of Operations, for any framework.

    operands  slots 0 to n - 1
    step      an Operation on slots, whose visible results are the next slots
    outputs   the slots that are returned

Slots are in SSA form: a launch that writes an array makes a new slot. So a program is a pure
function, and so is every step. A program has no derivative of its own: an adapter runs the steps
as operators of its framework, which differentiates, batches and schedules them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelcore.base.dataclass import dataclass
from kernelcore.base.threads import cached_property
from kernelcore.language.bound_names import BoundNames
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


# An Extent is that of an operand of the program, and stands for a number.
Given = Slot | Literal | Extent


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """One launch.

    Attributes:
        operation: The kernel as a pure function; grid and shapes follow from its own operands.
        given: The value of each operand of ``operation``.
        dead: Slots that are last used here.
    """

    operation: Operation
    given: tuple[Given, ...]
    dead: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """The launches of a function.

    Attributes:
        name: The name of the function.
        operands: The operands in order: one per flattened parameter.
        results: The results; their shapes are in terms of ``operands``.
        steps: The launches in order.
        outputs: The slots that hold ``results``, all different and none an operand.
        fixed: The numbers that the function read while it was recorded, by their source: an
            operand that is a scalar, or an extent. The program is for these numbers alone.
        names: The names around the function and its kernels, with what they stand for in it.
    """

    name: str
    operands: tuple[Operand, ...]
    results: tuple[Result, ...]
    steps: tuple[ProgramStep, ...]
    outputs: tuple[int, ...]
    fixed: Mapping[int | Extent, bool | int | float]
    names: tuple[BoundNames, ...] = ()

    def __repr__(self) -> str:
        return f"<program {self.name}: {len(self.steps)} launches>"

    @cached_property
    def key(self) -> str:
        """The program as text: equal keys mean equal programs, in every process."""
        rows = [(s.operation.key, tuple(map(repr, s.given))) for s in self.steps]
        return repr((self.operands, self.results, rows, self.outputs))

    @property
    def is_current(self) -> bool:
        """Whether names around the function and its kernels stand for what they do in it."""
        return all(names.hold() for names in self.names)

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


def with_lifetimes(
    steps: Sequence[ProgramStep], num_operands: int, outputs: Sequence[int]
) -> list[ProgramStep]:
    """``steps``, each with the slots that are last used there."""
    used = set(outputs)
    count = num_operands + sum(s.operation.visible for s in steps)
    found: list[ProgramStep] = []
    for step in reversed(steps):
        made = range(count - step.operation.visible, count)
        count -= step.operation.visible
        touched = {g.index for g in step.given if isinstance(g, Slot)} | set(made)
        found.append(ProgramStep(step.operation, step.given, tuple(sorted(touched - used))))
        used |= touched
    return found[::-1]
