"""Buffers of a program, and the attributes from which native code replays it in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jax_ffi.attributes import launch_attributes
from kernelcore.operators import (
    Extent,
    Literal,
    Program,
    ProgramStep,
    Result,
    Role,
    Shape,
    Slot,
    as_array,
    evaluate,
    own_shape,
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the slots of a program lie in one call.

    Attributes:
        slots: Per slot that a step makes, its buffer among the results.
        hidden: The buffers behind the results of the program: temporaries.
        aliases: Operands whose memory a result may take, since it starts as a copy.
    """

    slots: dict[int, int]
    hidden: tuple[Result, ...]
    aliases: dict[int, int]


def slot_results(program: Program) -> dict[int, Result]:
    """The result in every slot, with its shape in terms of the operands of the program."""
    shapes: dict[int, Shape] = {
        k: own_shape(k, as_array(o.type)) for k, o in enumerate(program.operands)
    }
    found: dict[int, Result] = {}
    for step, first in _steps(program):

        def moved(shape: Shape, step: ProgramStep = step) -> Shape:
            return tuple(_extent_of(e, step, shapes) for e in shape)

        for k, result in enumerate(step.operation.outputs):
            found[first + k] = Result(result.name, result.type, moved(result.shape))
            shapes[first + k] = found[first + k].shape
    return found


def _extent_of(extent: Extent, step: ProgramStep, shapes: dict[int, Shape]) -> Extent:
    if extent.operand < 0:
        return extent
    given = step.given[extent.operand]
    if isinstance(given, Slot):
        return shapes[given.index][extent.axis]
    assert isinstance(given, Literal)
    return Extent.literal(np.shape(given.value)[extent.axis])


def _steps(program: Program) -> list[tuple[ProgramStep, int]]:
    """Every step with the first slot that it makes."""
    count = len(program.operands)
    found: list[tuple[ProgramStep, int]] = []
    for step in program.steps:
        found.append((step, count))
        count += step.operation.visible
    return found


def layout(program: Program) -> Layout:
    """Buffers for the slots of ``program``; an update happens in place where that is not seen."""
    buffers = {slot: j for j, slot in enumerate(program.outputs)}
    count = len(program.outputs)
    aliases: dict[int, int] = {}
    for step, first in reversed(_steps(program)):
        for slot in range(first, first + step.operation.visible):
            if slot not in buffers:
                buffers[slot] = count
                count += 1
        for given, result in _updates(step):
            made = buffers[first + result]
            if given >= len(program.operands):
                buffers.setdefault(given, made)
            elif made < len(program.outputs) and made not in aliases.values():
                aliases[given] = made
    return Layout(*_pooled(program, buffers), aliases)


def _updates(step: ProgramStep) -> list[tuple[int, int]]:
    """Slots that the step is the last to see, with the results that start as copies of them."""
    found: list[tuple[int, int]] = []
    for bound in step.operation.bindings:
        if bound.role is Role.INOUT:
            given = step.given[bound.operand]
            assert isinstance(given, Slot)
            if given.index in step.dead and step.given.count(given) == 1:
                found.append((given.index, bound.result))
    return found


def _pooled(program: Program, buffers: dict[int, int]) -> tuple[dict[int, int], tuple[Result, ...]]:
    """``buffers`` with one for all temporaries of a type and shape that live one after another."""
    results, visible = slot_results(program), len(program.outputs)
    lives: dict[int, list[int]] = {}
    for time, (step, first) in enumerate(_steps(program)):
        used = {g.index for g in step.given if isinstance(g, Slot)}
        used |= set(range(first, first + step.operation.visible))
        for slot in sorted(used & buffers.keys()):
            if buffers[slot] >= visible:
                lives.setdefault(buffers[slot], [slot, time, time])[2] = time
    hidden: list[Result] = []
    ends: list[int] = []
    place: dict[int, int] = {}
    for buffer, (slot, start, end) in sorted(lives.items(), key=lambda item: item[1][1]):
        made = results[slot]
        fits = (
            k
            for k, other in enumerate(hidden)
            if ends[k] < start and (other.type, other.shape) == (made.type, made.shape)
        )
        k = next(fits, len(hidden))
        if k == len(hidden):
            hidden.append(made)
            ends.append(end)
        ends[k] = end
        place[buffer] = visible + k
    return {slot: place.get(b, b) for slot, b in buffers.items()}, tuple(hidden)


def program_attributes(
    program: Program, found: Layout, shapes: Sequence[Sequence[int]], platform: str
) -> tuple[dict[str, Any], list[Any]]:
    """The attributes from which native code replays ``program``, and arrays to append as operands.

    Args:
        program: The program.
        found: Its layout.
        shapes: Of the operands.
        platform: Where the program is to run.
    """
    constants = [
        np.asarray(given.value, as_array(operand.type).dtype.numpy)
        for step in program.steps
        for given, operand in zip(step.given, step.operation.operands, strict=True)
        if isinstance(given, Literal) and np.ndim(given.value)
    ]
    operands = len(program.operands) + len(constants)
    attributes: dict[str, Any] = {"steps": np.int64(len(program.steps))}
    constant = iter(range(len(program.operands), operands))
    for k, (step, first) in enumerate(_steps(program)):
        given: list[int | np.generic] = []
        for one, operand in zip(step.given, step.operation.operands, strict=True):
            if isinstance(one, Slot):
                is_made = one.index >= len(program.operands)
                given.append(operands + found.slots[one.index] if is_made else one.index)
            elif isinstance(one, Literal) and np.ndim(one.value):
                given.append(next(constant))
            else:
                value = one.value if isinstance(one, Literal) else evaluate((one,), shapes)[0]
                given.append(as_array(operand.type).dtype.numpy.type(value))
        results = [operands + found.slots[first + j] for j in range(step.operation.visible)]
        attributes[f"step{k}"] = launch_attributes(
            step.operation, given, results, platform=platform
        )
    return attributes, constants
