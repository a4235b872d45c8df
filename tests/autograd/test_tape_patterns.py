"""Gradients that a Tape computes of every pattern, against central differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.compiler.launch_descriptor import Role
from kernelcore.language.composite import value_class
from kernelcore.language.flatten import leaf_names
from kernelcore.language.types import ArrayOf, Dense, SourceType, StructType, element_type
from kernelcore.operators.operation import Operation, evaluate
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.environment import DEVICE
from tests.helpers.kernel_harness import unoptimised
from tests.helpers.operations import run_operation
from tests.helpers.patterns import PATTERNS, Pattern
from tests.passes.autodiff.test_derivatives import (
    difference,
    directions,
    dot,
    float_operands,
    pull,
    tolerance,
)

patterns = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)


@pytest.fixture(autouse=True)
def _quick_to_compile() -> Iterator[None]:
    """What LLVM optimises is tested without a Tape; here it would take half of the time."""
    with unoptimised():
        yield


class Run:
    """A pattern on data arrays: one per array parameter of the IR."""

    def __init__(self, pattern: Pattern, point: list[Any]) -> None:
        self.kernel = pattern.kernel
        self.op = kernel_operation(pattern.kernel, **pattern.options)
        self.point = point
        shapes = [np.shape(p) for p in point]
        self.grid = evaluate(self.op.grid, shapes)
        self.by_operand: dict[int, kc.Array] = {}
        self.by_result: dict[int, kc.Array] = {}
        self.fresh: list[kc.Array] = []
        self.leaves = [self.leaf(i, shapes) for i in range(len(self.op.bindings))]
        self.by_reference()
        for i, leaf in enumerate(self.leaves):
            bound = self.op.bindings[i]
            if isinstance(leaf, kc.Array) and bound.operand >= 0:
                self.by_operand[bound.operand] = leaf
            if isinstance(leaf, kc.Array) and bound.result >= 0:
                self.by_result[bound.result] = leaf

    def leaf(self, i: int, shapes: list[tuple[int, ...]]) -> Any:
        bound = self.op.bindings[i]
        if bound.role is Role.VALUE:
            return self.point[bound.operand]
        dtype = element_type(self.op.func.params[i].type)
        if bound.operand >= 0:
            data = np.array(self.point[bound.operand], dtype.numpy)
        else:
            data = np.zeros(evaluate(self.op.results[bound.result].shape, shapes), dtype.numpy)
        array = kc.array(data, dtype=dtype, device=DEVICE, requires_grad=dtype.is_float)
        if bound.operand < 0:
            self.fresh.append(array)
        return array

    def args(self) -> list[Any]:
        """The leaves put together as the parameters are declared."""
        rest = iter(self.leaves)
        return [together(p.type, rest) for p in self.kernel.parameters if p.type is not None]

    def by_reference(self) -> None:
        """Make arrays without dimensions of the vectors and matrices that are passed as values."""
        kinds = [d for p in self.kernel.parameters if p.type for d in dense_leaves(p.type)]
        for i, kind in enumerate(kinds):
            if kind is not None:
                data, is_float = self.leaves[i].numpy(), kind.kernel_type.scalar.is_float
                self.leaves[i] = kc.array(data, dtype=kind, device=DEVICE, requires_grad=is_float)

    def record(self, times: int) -> kc.Tape:
        with kc.Tape() as tape:
            for _ in range(times):
                for array in self.fresh:
                    array.zero_()
                kc.launch(self.kernel, self.grid, self.args())
        return tape


def dense_leaves(type_: SourceType) -> list[Any]:
    """Per IR parameter of a parameter, the class of the value that it is, or None."""
    match type_:
        case Dense():
            return [value_class(type_)]
        case StructType(fields=fields):
            return [leaf for _, member in fields for leaf in dense_leaves(member)]
        case _:
            return [None] * len(leaf_names("", type_))


def together(type_: SourceType, rest: Iterator[Any]) -> Any:
    match type_:
        case StructType(fields=fields):
            return {name: together(member, rest) for name, member in fields}
        case ArrayOf(element=element, ndim=ndim, is_indexed=is_indexed):
            data = together(element, rest) if isinstance(element, StructType) else next(rest)
            if not is_indexed:
                return data
            return kc.indexedarray(data, [next(rest) for _ in range(ndim)])
        case _:
            return next(rest)


def after_launch(op: Operation, point: list[Any], results: list[np.ndarray]) -> list[Any]:
    """The operands after a launch: in-out arrays hold its results."""
    after = list(point)
    for bound in op.bindings:
        if bound.operand >= 0 and 0 <= bound.result < op.visible:
            after[bound.operand] = results[bound.result]
    return after


def recorded(pattern: Pattern, times: int) -> tuple[Run, list[np.ndarray]]:
    """The pattern after its backward pass, and the cotangents."""
    run = Run(pattern, pattern.arguments(np.random.default_rng(0)))
    tape = run.record(times)
    results = [run.by_result[j].numpy() for j in range(run.op.visible)]
    cts = directions(results, range(len(results)), 2)
    pairs = zip(range(run.op.visible), cts, strict=True)
    tape.backward(grads={run.by_result[j]: ct for j, ct in pairs if is_float(run, j)})
    return run, cts


@patterns
def test_gradients_match_central_differences(pattern: Pattern) -> None:
    run, cts = recorded(pattern, 1)
    want = list(pattern.reference(*run.point))
    for j, result in enumerate(want):
        np.testing.assert_allclose(run.by_result[j].numpy(), result, rtol=1e-6, atol=1e-6)
    for k, array in run.by_operand.items():
        if array.grad is None:
            continue
        along = directions(run.point, [k], 3)
        expected = difference(lambda p: list(pattern.reference(*p)), run.point, [k], along)
        np.testing.assert_allclose(
            dot([array.grad.numpy()], along),
            dot(cts, expected),
            rtol=tolerance(run.point),
            atol=tolerance(run.point),
        )


@patterns
def test_gradients_of_two_launches_are_those_of_composed_operations(pattern: Pattern) -> None:
    run, cts = recorded(pattern, 2)
    op = run.op
    if any(b.role is Role.SCRATCH for b in op.bindings):
        return  # what a private buffer holds afterwards is no result of the operation
    wrt = float_operands(op, run.point)
    kept = {b.operand: b.result for b in op.bindings if b.operand >= 0 and b.result >= 0}
    second = after_launch(op, run.point, run_operation(op, run.point))
    late = dict(zip(wrt, pull(op, second, wrt, cts, False), strict=True))
    between = [np.zeros_like(ct) for ct in cts]
    for k in kept.keys() & late.keys():
        between[kept[k]] = late[k]
    early = dict(zip(wrt, pull(op, run.point, wrt, between, False), strict=True))
    for k, array in run.by_operand.items():
        if array.grad is not None:
            expected = early[k] if k in kept else early[k] + late[k]
            scale = float(np.max(np.abs(expected), initial=1.0))
            limit = tolerance(run.point)
            np.testing.assert_allclose(array.grad.numpy(), expected, rtol=limit, atol=limit * scale)


def is_float(run: Run, result: int) -> bool:
    return run.by_result[result].requires_grad


@kc.struct
class Inner:
    weight: kc.array[kc.float64]
    fixed: kc.array[kc.float64]


@kc.struct
class Model:
    inner: Inner
    scale: kc.float64
    bias: kc.array[kc.float64]


@kc.kernel
def evaluated(m: Model, x: kc.array[kc.float64], y: kc.array[kc.float64]):
    i = kc.tid()
    y[i] = m.scale * m.inner.weight[i] * x[i] * x[i] + m.bias[i] * m.inner.fixed[i]


def _numbers(*values: float, tracked: bool = True) -> kc.Array:
    return kc.array(list(values), dtype=kc.float64, requires_grad=tracked)


def test_gradients_are_given_by_structs() -> None:
    inner = Inner(weight=_numbers(1.0, 2.0), fixed=_numbers(5.0, 6.0, tracked=False))
    model = Model(inner=inner, scale=3.0, bias=_numbers(0.0, 0.0))
    x, y = _numbers(7.0, 8.0), _numbers(0.0, 0.0)
    with kc.Tape() as tape:
        kc.launch(evaluated, 2, [model, x], [y])
    tape.backward(grads={y: np.ones(2)})
    found = tape.gradients[model]
    assert found.inner.weight.numpy().tolist() == [147.0, 192.0]
    assert found.bias.numpy().tolist() == [5.0, 6.0]
    assert found.inner.fixed is None
    assert found.scale == 3.0
    assert tape.gradients.get(model).bias is model.bias.grad
    assert tape.gradients[x] is x.grad


def test_a_recorded_function_keeps_the_gradient_of_a_written_array() -> None:
    x, y, z = _numbers(1.0, 2.0), _numbers(0.0, 0.0), _numbers(0.0, 0.0)
    inner = Inner(weight=_numbers(1.0, 1.0), fixed=_numbers(0.0, 0.0))
    model = Model(inner=inner, scale=1.0, bias=_numbers(0.0, 0.0))
    kept = kc.zeros(2, dtype=kc.float64)
    with kc.Tape() as tape:
        kc.launch(evaluated, 2, [model, x], [y])
        tape.record_func(lambda: kept.assign(y.grad), [y])
        kc.launch(evaluated, 2, [model, y], [z])
    tape.backward(grads={z: np.ones(2)})
    assert kept.numpy().tolist() == [2.0, 8.0]
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [4.0, 32.0]
    assert not y.retain_grad


@kc.kernel
def squares(x: kc.array[kc.float64], y: kc.array[kc.float64]):
    i = kc.tid()
    y[i] = x[i] * x[i]


def test_launches_of_adjoints_are_recorded() -> None:
    x, y = np.array([1.0, 2.0]), np.zeros(2)
    ct_x, ct_y = np.zeros(2), np.ones(2)
    adjoint: dict[str, Any] = {"adj_inputs": [ct_x], "adj_outputs": [ct_y], "adjoint": True}
    command = kc.launch(squares, 2, [x], [y], **adjoint, record_cmd=True)
    assert isinstance(command, kc.Launch)
    assert "adjoint launch of squares" in repr(command)
    assert ct_x.tolist() == [0.0, 0.0]
    for count in (1.0, 2.0, 3.0):
        ct_y[:] = 1.0
        command.launch()
        assert ct_x.tolist() == [2.0 * count, 4.0 * count]
    other, seed = np.zeros(2), np.array([1.0, 10.0])
    command.set_param_at_index(0, other, adjoint=True)
    command.set_param_by_name("y", seed, adjoint=True)
    command.set_param_by_name("x", np.array([3.0, 4.0]))
    command.launch()
    assert other.tolist() == [6.0, 80.0]
    tracked, out = _numbers(5.0), _numbers(0.0)
    assert out.grad is not None
    out.grad.fill_(1.0)
    own = kc.launch(squares, 1, [tracked], [out], adjoint=True, record_cmd=True)
    assert own is not None
    own.launch()
    assert tracked.grad is not None
    assert tracked.grad.numpy().tolist() == [10.0]


def test_launches_are_made_by_hand() -> None:
    command = kc.Launch(squares, device="cpu", block_dim=64)
    with pytest.raises(kc.KernelArgumentError, match="the launch has no grid"):
        command.launch()
    x, y = np.array([1.0, 2.0]), np.zeros(2)
    command.set_dim(2)
    command.set_param_at_index(0, x)
    command.set_param_by_name("y", y)
    for _ in range(3):
        command.launch()
    assert y.tolist() == [1.0, 4.0]
    ct_x = np.zeros(2)
    command.set_param_at_index(0, ct_x, adjoint=True)
    command.set_param_at_index(1, np.ones(2), adjoint=True)
    command.launch()
    assert ct_x.tolist() == [2.0, 4.0]
