"""Results that a kernel writes as a whole are not cleared, and hold nothing of what was there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.compiler.launch_descriptor import Binding, Role, ZeroFill
from kernelcore.ir.core import Func
from kernelcore.operators import derive
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.operators.whole_results import without_zeros
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import launch

F1, F2, V2 = kc.array(float, 1), kc.array(float, 2), kc.array(kc.vec3, 2)


@kc.kernel
def softmax(x: F2, y: F2):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k])
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(x[i, k]) / total


@kc.kernel
def down(x: F2, y: F2):
    i = kc.tid()
    for k in range(y.shape[1] - 1, -1, -1):
        y[i, k] = -x[i, k] * x[i, k]


@kc.kernel
def twice(x: F2, y: F2):
    i = kc.tid()
    for k in range(x.shape[1]):
        kc.atomic_add(y, i, k, x[i, k])
    for k in range(1, x.shape[1]):
        kc.atomic_add(y, i, k, x[i, k - 1] * x[i, k])


@kc.kernel
def vectors(x: V2, y: V2):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] * kc.length(x[i, k])


@kc.kernel
def triangle(x: F2, y: F2):
    i = kc.tid()
    for k in range(i):
        y[i, k] = x[i, k]


@kc.kernel
def from_one(x: F2, y: F2):
    i = kc.tid()
    for k in range(1, x.shape[1]):
        y[i, k] = x[i, k] * x[i, k]


@kc.kernel
def every_other(x: F2, y: F2):
    i = kc.tid()
    for k in range(0, x.shape[1], 2):
        y[i, k] = x[i, k]


@kc.kernel
def positive(x: F2, y: F2):
    i = kc.tid()
    for k in range(x.shape[1]):
        if x[i, k] > 0.0:
            y[i, k] = x[i, k]


@kc.kernel
def ends_early(x: F2, y: F2):
    i = kc.tid()
    for k in range(x.shape[1]):
        if x[i, k] > 0.9:
            break
        y[i, k] = x[i, k]


@kc.kernel
def some_rows(x: F2, y: F2):
    i = kc.tid()
    if i % 2 == 0:
        return
    for k in range(x.shape[1]):
        y[i, k] = x[i, k]


@kc.kernel
def never(x: F2, y: F2):
    i = kc.tid()
    for _ in range(x.shape[0] - 6):
        for k in range(x.shape[1]):
            y[i, k] = x[i, k]


@kc.kernel
def diagonal(x: F2, y: F2):
    i = kc.tid()
    for _ in range(x.shape[1]):
        y[i, i] = x[i, i]


@kc.kernel
def same_index_twice(x: F2, y: F2):
    y[kc.tid(), kc.tid()] = x[kc.tid(), 0]


@kc.kernel
def repeated(x: F2, y: F2):
    i = kc.tid()
    for j in range(x.shape[1]):
        for k in range(x.shape[1]):
            kc.atomic_add(y, i, k, x[i, j])


@kc.kernel
def ahead(x: F2, y: F2):
    i = kc.tid()
    for k in range(x.shape[1]):
        kc.atomic_add(y, i, k, x[i, k])
        kc.atomic_add(y, i, (k + 1) % x.shape[1], x[i, k])


@kc.kernel
def one_component(x: V2, y: V2):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k][1] = x[i, k][0]


WHOLE = (softmax, down, twice, vectors)
PARTIAL = (
    triangle,
    from_one,
    every_other,
    positive,
    ends_early,
    some_rows,
    never,
    diagonal,
    same_index_twice,
    repeated,
    ahead,
    one_component,
)


def launched(op: Operation) -> tuple[Func, tuple[Binding, ...]]:
    return without_zeros(op.func, op.bindings, op.like, op.results, op.grid)


def clears(op: Operation) -> list[bool]:
    """Whether each new result is cleared before a launch."""
    _, bindings = launched(op)
    return [b.zero is not ZeroFill.NEVER for b in bindings if b.role is Role.OUTPUT]


def results(op: Operation, operands: list[np.ndarray], *, is_cleared: bool) -> list[np.ndarray]:
    """The results of a launch that clears all, or else of one over memory that holds NaNs."""
    func, bindings = (op.func, op.bindings) if is_cleared else launched(op)
    shapes = [o.shape for o in operands]
    args: list[Any] = []
    for bound in bindings:
        if bound.role is not Role.OUTPUT:
            args.append(operands[bound.operand].copy())
            continue
        needs_zeros = bound.zero is not ZeroFill.NEVER or is_cleared
        shape = evaluate(op.results[bound.result].shape, shapes)
        args.append(np.full(shape, 0.0 if needs_zeros else np.nan, np.float32))
    grid = evaluate(op.grid, shapes)
    assert launch(optimize(func), args, grid) == abi.STATUS_OK
    return [a for a, b in zip(args, bindings, strict=True) if b.role is Role.OUTPUT]


def operation(kernel: kc.Kernel) -> tuple[Operation, np.ndarray]:
    """The Operation of ``kernel``, and an operand, with zeros of both signs."""
    op = kernel_operation(kernel, ["y"], launch_dims="x.shape[0]", output_dims="x")
    components = (3,) if kernel in (vectors, one_component) else ()
    x = np.random.default_rng(0).uniform(-1.0, 1.0, (6, 6, *components)).astype(np.float32)
    x[2, 1:4] = -0.0
    return op, x


@pytest.mark.parametrize("kernel", [*WHOLE, *PARTIAL], ids=lambda k: k.name)
def test_memory_of_results_leaves_no_trace(kernel: kc.Kernel) -> None:
    op, x = operation(kernel)
    assert clears(op) == [kernel in PARTIAL]
    ct = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    ct[:, 2] = -0.0
    adjoint = derive.vjp(op, [0], [0]).operation
    for run, operands in ((op, [x]), (adjoint, [x, ct])):
        expected = results(run, operands, is_cleared=True)
        for a, b in zip(results(run, operands, is_cleared=False), expected, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("kernel", [softmax, vectors], ids=lambda k: k.name)
def test_gradients_of_rows_are_not_cleared(kernel: kc.Kernel) -> None:
    assert clears(derive.vjp(operation(kernel)[0], [0], [0]).operation) == [False]


def test_results_of_another_extent_are_cleared() -> None:
    op = kernel_operation(
        softmax, ["y"], launch_dims="x.shape[0]", output_dims=("x.shape[0]", "x.shape[0]")
    )
    assert clears(op) == [True]
    assert clears(kernel_operation(softmax, ["y"], launch_dims=3, output_dims="x")) == [True]
