"""Adjoints of every pattern have the same bits for every number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import _native
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.row_blocks import blocked_loops
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.compiler.launch_descriptor import Role
from kernelcore.language.types import element_type
from kernelcore.operators import derive
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import copies, launch
from tests.helpers.patterns import PATTERNS, Pattern, atomics

pytestmark = pytest.mark.usefixtures("eager_sharing")

# Minima and maxima have derivatives of another kind (``opselect``).
ADDING = [p for p in PATTERNS if p.kernel.pyfunc.__module__ != atomics.__name__]
INSTANCES = 700
THREADS = (1, 2, 8)
F1, F2, F64 = kc.array(kc.float32, 1), kc.array(kc.float32, 2), kc.array(kc.float64, 1)


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


@kc.kernel
def sums_along_rows(x: F2, w: F1, y: F2, up: F1, down: F64, rows: F2):
    i = kc.tid()
    n = x.shape[1]
    if i % 7 != 3:
        for k in range(n):
            y[i, k] = x[i, k] * w[k]
            kc.atomic_add(up, k, x[i, k] * w[k])
            kc.atomic_add(up, k, x[i, k])
            kc.atomic_add(down, n - 1 - k, kc.float64(x[i, k]))
            kc.atomic_add(rows, i * i % 11, k, x[i, k])
            kc.atomic_add(rows, i // 500, k, w[k])


@pytest.mark.parametrize("columns", [5, 16, 43])
def test_sums_of_blocks_are_those_of_iterations(columns: int) -> None:
    """They do not depend on the threads, nor on whether a block makes them together."""
    func, rng = optimize(sums_along_rows.func), np.random.default_rng(columns)
    (loop,) = blocked_loops(func, lane_strides(func)).values()
    assert (len(loop.sums), len(loop.scatters)) == (3, 2)
    x, w = rng.normal(size=(1003, columns)), rng.normal(size=columns)
    sums: list[Any] = [np.zeros(columns, np.float32), np.zeros(columns)]
    sums.append(np.zeros((11, columns), np.float32))
    args = [*(a.astype(np.float32) for a in (x, w)), np.zeros(x.shape, np.float32), *sums]
    one_by_one, *others = (copies(args) for _ in range(2 + len(THREADS)))
    # Without masks there are no blocks.
    assert launch(func, one_by_one, 1003, lanes=16, least_masked_bytes=NO_MASKS) == abi.STATUS_OK
    assert launch(func, others[0], 1003, lanes=16) == abi.STATUS_OK
    for a, b in zip(one_by_one, others[0], strict=True):
        np.testing.assert_array_equal(a, b)
    kept = np.arange(1003) % 7 != 3
    np.testing.assert_allclose(others[0][3], (x * (w + 1))[kept].sum(0), rtol=1e-3, atol=1e-3)
    found: list[list[np.ndarray]] = []
    for threads, given in zip(THREADS, others[1:], strict=True):
        kc.set_num_threads(threads)
        kc.launch(sums_along_rows, 1003, given)
        found.append(given)
    for given in found[1:]:
        for a, b in zip(given, found[0], strict=True):
            np.testing.assert_array_equal(a, b)
