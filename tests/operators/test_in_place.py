"""Results in the memory of cotangents: the bits are those of results in memory of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.compiler.launch_descriptor import Role
from kernelcore.operators import derive, in_place
from kernelcore.operators.extremum import extremum_operations
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.operations import run_operation
from tests.helpers.patterns import PATTERNS, Pattern

F1, F2, V1 = kc.array(float, 1), kc.array(float, 2), kc.array(kc.vec3, 1)


@kc.kernel
def sine(x: F1, y: F1):
    i = kc.tid()
    y[i] = kc.sin(x[i])


@kc.kernel
def pair(x: F1, p: F1, y: F1, q: F1):
    i = kc.tid()
    y[i] = kc.sin(x[i])
    q[i] = kc.cos(p[i])


@kc.kernel
def shared(x: F1, p: F1, y: F1):
    i = kc.tid()
    y[i] = x[i] * p[i] * x[i]


@kc.kernel
def crossed(x: V1, y: V1):
    i = kc.tid()
    y[i] = kc.cross(x[i], kc.vec3(1.0, 2.0, 3.0)) * x[i][0]


@kc.kernel
def branches(x: F1, y: F1):
    i = kc.tid()
    if x[i] > 0.0:
        y[i] = x[i] * x[i]
    else:
        y[i] = kc.exp(x[i])


@kc.kernel
def neighbours(x: F1, y: F1):
    i = kc.tid()
    y[i] = x[i] * x[(i + 1) % x.shape[0]]


@kc.kernel
def rows(x: F2, y: F2):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    for k in range(x.shape[1]):
        y[i, k] = x[i, k] * total


@kc.kernel
def mixed_row(x: F2, y: F2):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    first, last = x[i, 0], x[i, x.shape[1] - 1]
    for k in range(x.shape[1]):
        y[i, k] = total * first - last


@kc.kernel
def reversed_points(x: F1, y: F1):
    i = kc.tid()
    y[x.shape[0] - 1 - i] = x[i] * x[i]


@kc.kernel
def positive(x: F1, y: F1):
    i = kc.tid()
    if x[i] > 0.0:
        y[i] = x[i] * x[i]


@kc.kernel
def sum_of_all(x: F1, y: F1):
    i = kc.tid()
    kc.atomic_add(y, 0, x[i] * x[i])


def adjoint(kernel: kc.Kernel, outputs: list[str], **options: Any) -> tuple[Operation, list[int]]:
    """The adjoint of all arrays of ``kernel``, and the operands that are cotangents."""
    op = kernel_operation(kernel, outputs, **options)
    count, given = len(op.operands), range(len(outputs))
    found = derive.vjp(op, range(count), given).operation
    return found, [count + j for j in given]


def updated(op: Operation) -> dict[int, int]:
    return {b.operand: b.result for b in op.bindings if b.role is Role.INOUT}


def check(op: Operation, given_up: list[int], operands: list[np.ndarray]) -> dict[int, int]:
    """The pairs of operands and results in their memory, whose bits are right."""
    changed = in_place(op, given_up, [np.shape(o) for o in operands])
    for found, expected in zip(
        run_operation(changed, operands), run_operation(op, operands), strict=True
    ):
        assert found.tobytes() == expected.tobytes()
    return updated(changed)


def has_extrema(pattern: Pattern) -> bool:
    op = kernel_operation(pattern.kernel, **pattern.options)
    return extremum_operations(op, range(len(op.operands))) is not None


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kernel", [sine, shared, crossed], ids=lambda k: k.name)
def test_cotangents_of_own_elements_become_results(kernel: kc.Kernel) -> None:
    op, given_up = adjoint(kernel, ["y"])
    components = (3,) if kernel is crossed else ()
    arrays = [normal(67, *components) + k for k in range(len(op.operands))]
    assert check(op, given_up, arrays) == {given_up[0]: 0}


def test_a_cotangent_takes_the_result_at_its_place() -> None:
    op, given_up = adjoint(pair, ["y", "q"])
    arrays = [normal(33) + k for k in range(4)]
    assert check(op, given_up, arrays) == {given_up[0]: 0, given_up[1]: 1}
    assert check(op, given_up[1:], arrays) == {given_up[1]: 0}


def test_a_row_takes_the_place_of_one_that_is_loaded_before() -> None:
    for kernel, expected in ((mixed_row, {0: 0}), (rows, {})):
        op = kernel_operation(kernel, ["y"], launch_dims="x.shape[0]", output_dims="x")
        for columns in (1, 5, 16, 70):
            assert check(op, [0], [normal(67, columns)]) == expected


@pytest.mark.parametrize(
    "kernel", [neighbours, rows, reversed_points, sum_of_all], ids=lambda k: k.name
)
def test_elements_that_are_read_otherwise_stay(kernel: kc.Kernel) -> None:
    given: dict[str, Any] = {"output_dims": "x"}
    if kernel is rows:
        given["launch_dims"] = "x.shape[0]"
    if kernel is sum_of_all:
        given["output_dims"] = 1
    op, given_up = adjoint(kernel, ["y"], **given)
    x = normal(9, 9) if kernel is rows else normal(9)
    ct = normal(1) if kernel is sum_of_all else x + 1.0
    assert check(op, given_up, [x, ct]) == {}


def test_a_result_that_keeps_zeros_has_memory_of_its_own() -> None:
    for kernel in (positive, branches):
        op, given_up = adjoint(kernel, ["y"])
        assert check(op, given_up, [normal(50), normal(50) + 1.0]) == {}
    # Of fewer points than elements, the others would keep cotangents.
    op, given_up = adjoint(sine, ["y"], launch_dims=20, output_dims="x")
    assert check(op, given_up, [normal(50), normal(50) + 1.0]) == {}


def test_arrays_of_other_shapes_have_memory_of_their_own() -> None:
    op, given_up = adjoint(shared, ["y"])
    x, p, ct = normal(20), normal(30), normal(20)
    assert check(op, given_up, [x, p, ct]) == {given_up[0]: 0}
    op, given_up = adjoint(shared, ["y"], launch_dims="x.shape[0]", output_dims="p")
    assert check(op, given_up, [x, p, normal(30)]) == {}


# Others are differentiated through weights of their ties.
DIRECT = [p for p in PATTERNS if not has_extrema(p)]


@pytest.mark.parametrize("pattern", DIRECT, ids=lambda p: p.name)
def test_adjoints_of_every_pattern(pattern: Pattern) -> None:
    op = kernel_operation(pattern.kernel, **pattern.options)
    arguments = [np.asarray(a) for a in pattern.arguments(np.random.default_rng(0))]
    wrt = [k for k, a in enumerate(arguments) if a.dtype.kind == "f" and a.ndim]
    given = [j for j, r in enumerate(op.outputs) if r.type.dtype.is_float]
    found = derive.vjp(op, wrt, given).operation
    shapes = [a.shape for a in arguments]
    rng = np.random.default_rng(1)
    for j in given:
        result = op.results[j]
        made = rng.normal(size=evaluate(result.shape, shapes))
        arguments.append(made.astype(result.type.dtype.numpy))
    check(found, list(range(len(shapes), len(arguments))), arguments)
