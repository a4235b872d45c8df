"""Runs Operations over NumPy arrays, interpreted or compiled: the oracle of derivative tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelcore.base import native
from kernelcore.codegen import abi
from kernelcore.compiler.launch_descriptor import Role
from kernelcore.ir.core import Func
from kernelcore.ir.verify import verify
from kernelcore.language.types import element_type
from kernelcore.launch.executable import Executable
from kernelcore.operators.extremum import extremum_operations, find_ties
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.passes.pipeline import optimize
from tests.helpers import interpreter
from tests.helpers.environment import IS_CPU
from tests.helpers.kernel_harness import launch

Arrays = list[np.ndarray]


def run_operation(
    op: Operation,
    operands: Sequence[Any],
    *,
    interpret: bool = False,
    lanes: int | None = None,
    loop_lanes: int = 1,
    on: Callable[[Func, Sequence[Any], Sequence[int]], None] | None = None,
) -> Arrays:
    """The visible results of ``op``; operands are NumPy arrays, and numbers for values.

    With ``lanes``, machine code runs gangs of this many threads, and ``loop_lanes`` iterations of a
    loop at once; ``on`` is a function that runs a kernel on its arguments over a grid.
    """
    verify(op.func)
    dtypes = [element_type(o.type) for o in op.operands]
    operands = [np.asarray(o, d.numpy) for o, d in zip(operands, dtypes, strict=True)]
    shapes = [o.shape for o in operands]
    results = [np.zeros(evaluate(r.shape, shapes), r.type.dtype.numpy) for r in op.results]
    args: list[Any] = []
    for bound in op.bindings:
        if bound.role is Role.VALUE:
            args.append(operands[bound.operand][()])
        elif bound.role is Role.INPUT:
            args.append(operands[bound.operand])
        else:
            if bound.operand >= 0:
                results[bound.result][...] = operands[bound.operand]
            args.append(results[bound.result])
    grid = evaluate(op.grid, shapes)
    if interpret:
        interpreter.run(op.func, args, grid)
    elif on is not None:
        on(optimize(op.func), args, grid)
    elif lanes is not None or not IS_CPU:
        assert launch(optimize(op.func), args, grid, None, lanes, loop_lanes) == abi.STATUS_OK
    else:
        native.launch(Executable(lambda: optimize(op.func)).signature, grid, args)
    return results[: op.visible]


class Smooth(NamedTuple):
    """What is differentiated in the place of an operation, and operands that it takes.

    Attributes:
        operation: The operation, or what stands for it.
        operands: Its operands.
        own: By operand: what its tangent is multiplied with before, its cotangent after.
    """

    operation: Operation
    operands: list[Any]
    own: dict[int, Any]


def smooth(
    op: Operation, operands: Sequence[Any], active: Sequence[int], *, interpret: bool = False
) -> Smooth:
    """What is differentiated in the place of ``op`` with respect to operands ``active``."""
    chosen = extremum_operations(op, active)
    if chosen is None:
        return Smooth(op, list(operands), {})

    def run(operation: Operation, args: Sequence[Any]) -> Arrays:
        return run_operation(operation, args, interpret=interpret)

    found = find_ties(
        chosen, operands, run(op, operands), run, lambda x, like: x.astype(like.dtype)
    )
    return Smooth(chosen.weighted, [*operands, *found.operands], found.start)
