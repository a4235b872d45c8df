"""Adjoints of every pattern have the same bits for every number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import _native
from kernelcore.compiler.launch_descriptor import Role
from kernelcore.language.types import element_type
from kernelcore.operators import derive
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.patterns import PATTERNS, Pattern, atomics

pytestmark = pytest.mark.usefixtures("eager_sharing")

# Minima and maxima have derivatives of another kind (``opselect``).
ADDING = [p for p in PATTERNS if p.kernel.pyfunc.__module__ != atomics.__name__]
INSTANCES = 700
THREADS = (1, 2, 8)


def shared_adjoint(pattern: Pattern) -> tuple[Operation, list[Any]]:
    """The adjoint of many instances that share a float operand, and its operands."""
    op = kernel_operation(pattern.kernel, **pattern.options)
    given = zip(pattern.arguments(np.random.default_rng(0)), op.operands, strict=True)
    point = [np.asarray(a, element_type(o.type).numpy) for a, o in given]
    floats = [k for k, a in enumerate(point) if a.dtype.kind == "f"]
    shared = [k for k in floats if k not in op.owners()][1:][-1:]
    is_batched = [k not in shared for k in range(len(point))]
    op = derive.batch(op, is_batched)
    rng = np.random.default_rng(1)
    operands = [
        np.stack([a * (1 + rng.random() / 8) if k in floats else a for _ in range(INSTANCES)])
        if is_batched[k]
        else a
        for k, a in enumerate(point)
    ]
    operands = [a.astype(p.dtype) for a, p in zip(operands, point, strict=True)]
    shapes = [np.shape(o) for o in operands]
    cotangents = [
        rng.standard_normal(evaluate(r.shape, shapes)).astype(r.type.dtype.numpy)
        for r in op.outputs
    ]
    adjoint = derive.vjp(op, floats, range(op.visible)).operation
    return adjoint, [*operands, *cotangents]


def results(op: Operation, operands: list[Any]) -> list[np.ndarray]:
    shapes = [np.shape(o) for o in operands]
    found = [np.zeros(evaluate(r.shape, shapes), r.type.dtype.numpy) for r in op.results]
    args: list[Any] = []
    for bound in op.bindings:
        if bound.role in (Role.VALUE, Role.INPUT):
            args.append(operands[bound.operand])
            continue
        if bound.operand >= 0:
            found[bound.result][...] = operands[bound.operand]
        args.append(found[bound.result])
    _native.launch(op.signature, evaluate(op.grid, shapes), args)
    return found


@pytest.mark.parametrize("pattern", ADDING, ids=lambda p: p.name)
def test_adjoints_do_not_depend_on_the_threads(pattern: Pattern) -> None:
    adjoint, operands = shared_adjoint(pattern)
    kc.set_num_threads(1)
    expected = results(adjoint, operands)
    for threads in THREADS[1:]:
        kc.set_num_threads(threads)
        for one, other in zip(results(adjoint, operands), expected, strict=True):
            assert one.tobytes() == other.tobytes()
