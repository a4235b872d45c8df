"""Recorded programs: the launches of a function are a pure function of arrays."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.verify import verify
from kernelcore.operators.operation import Extent
from kernelcore.operators.spec import Spec
from kernelcore.operators.traced.interface import interface
from kernelcore.operators.traced.program import Program
from kernelcore.operators.traced.program_cache import Programs
from kernelcore.operators.traced.trace import record
from tests.helpers.operations import run_operation

Array = kc.array(dtype=kc.float64)
Vectors = kc.array(dtype=kc.vec2d)


@kc.struct
class Motion:
    scale: kc.float64
    shift: kc.vec2d


@kc.kernel
def scale(x: Array, s: kc.float64, n: int, y: Array):
    i = kc.tid()
    y[i] = x[i] * s + kc.float64(n)


@kc.kernel
def add(x: Array, y: Array):
    i = kc.tid()
    y[i] += x[i]


@kc.kernel
def total(x: Array, y: Array):
    kc.atomic_add(y, 0, x[kc.tid()])


@kc.kernel
def move(m: Motion, x: kc.array(dtype=kc.vec2d), y: kc.array(dtype=kc.vec2d)):
    i = kc.tid()
    y[i] = m.scale * x[i] + m.shift


@kc.kernel
def double(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    y[i] = x[i] + x[i]


def run(program: Program, values: list[Any]) -> tuple[Any, ...]:
    for step in program.steps:
        verify(step.operation.func)
    return program.run(values, lambda operation, given: run_operation(operation, given))


def check(function: Callable[..., None], values: list[Any], want: list[Any], **options: Any) -> Any:
    face = interface(function, Spec(**options))
    program = record(face, values)
    kept = [np.array(v) for v in values]
    for found, expected in zip(run(program, values), want, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    for before, after in zip(kept, values, strict=True):
        np.testing.assert_array_equal(before, after)
    return program


X = np.arange(4.0)


def test_launches_run_in_order_on_new_versions_of_arrays():
    def function(x: Array, s: kc.float64, y: Array):
        t = kc.zeros_like(x)
        kc.launch(add, x.shape, [x], [t])  # zeros before
        kc.launch(add, x.shape, [x], [t])
        kc.launch(scale, x.size, [t, s, x.shape[0]], [y])
        kc.launch(scale, len(x.shape) * 4, [y, 2.0, 0], [t])
        kc.launch(add, x.shape[0], [t], [y])

    program = check(function, [X, 3.0], [3 * (2 * 3 * X + 4)])
    assert program.fixed == {}
    longer = np.arange(7.0)
    np.testing.assert_allclose(
        run(record(interface(function), [longer, 3.0]), [longer, 3.0])[0][:4], 18 * X[:4] + 21
    )


def test_one_program_serves_all_sizes_and_values_that_are_not_read():
    def function(x: Array, s: kc.float64, y: Array):
        kc.launch(scale, x.shape, [x, s, 0], [y])

    program = record(interface(function), [X, 3.0])
    (found,) = run(program, [np.ones(9), 0.5])
    np.testing.assert_array_equal(found, np.full(9, 0.5))


def test_numbers_that_are_read_are_fixed():
    def function(x: Array, repeat: int, y: Array):
        kc.launch(scale, x.shape, [x, 1.0, 0], [y])
        for _ in range(repeat):
            kc.launch(add, x.shape, [x], [y])
        if x.shape[0] > 3:
            kc.launch(add, x.shape, [x], [y])

    program = check(function, [X, 2], [4 * X])
    assert program.fixed == {1: 2, Extent.of(0, 0): 4}
    check(function, [X[:3], 1], [2 * X[:3]])
    programs = Programs(interface(function))
    first = programs.of([X, 2])
    assert programs.of([X + 1.0, 2]) is first
    assert {programs.of([X, 3]), programs.of([X[:3], 2]), first} == {
        programs.of([X, repeat]) for repeat in (2, 3)
    } | {programs.of([np.ones(3), 2])}
    assert len({programs.of([X, 3]), programs.of([X[:3], 2]), first}) == 3


def test_in_out_arrays_are_results():
    def function(x: Array, state: Array):
        kc.launch(add, x.shape, [x], [state])
        kc.launch(total, x.shape, [x], [state])

    want = 2.0 * X
    want[0] += X.sum()
    check(function, [X, X], [want], in_out=["state"])


def test_arrays_are_assigned_and_filled():
    def function(x: Array, y: Array, z: Array, w: Array):
        y.fill_(2.0)
        kc.launch(add, x.shape, [x], [y])
        kc.copy(z, y)
        y.zero_()
        w[:] = x

    check(function, [X], [np.zeros(4), X + 2, X], outputs=["y", "z", "w"])


def test_structs_composites_and_generic_kernels():
    def function(m: Motion, axis: kc.vec2d, x: Vectors, y: Vectors):
        half = kc.empty(x.shape, kc.vec2d)
        kc.launch(move, x.shape, [m, x], [half])
        kc.launch(move, x.shape, [Motion(scale=2.0, shift=(1.0, 0.0)), half], [y])
        kc.launch(double, x.shape, [y], [half])
        kc.launch(double, x.shape, [half], [y])

    x = np.arange(6.0).reshape(3, 2)
    shift, axis = np.array([0.5, -1.0]), np.array([1.0, 2.0])
    want = 4 * (2 * (3 * x + shift) + np.array([1.0, 0.0]))
    check(function, [3.0, shift, axis, x], [want])


def test_shapes_of_outputs_follow_rules():
    def function(x: Array, s: Array, y: Array):
        kc.launch(total, x.shape, [x], [s])
        kc.launch(double, y.shape, [x], [y])

    dims = {"s": 1, "y": ("x.shape[0]",)}
    check(function, [X], [[6.0], 2 * X], outputs=["s", "y"], output_dims=dims)


def reads_data(x: Array, y: Array):
    y.fill_(float(x.numpy()[0]))


def reads_number(x: Array, y: Array):
    y.fill_(x[0])


def never_writes(x: Array, y: Array):
    pass


def writes_input(x: Array, y: Array):
    kc.launch(double, x.shape, [x], [y])
    kc.launch(double, x.shape, [y], [x])


@kc.kernel
def grow(x: Array, y: Array):
    i = kc.tid()
    y[i] = y[i] * x[i]


def reads_output(x: Array, y: Array):
    kc.launch(grow, x.shape, [x], [y])


def test_an_elementwise_kernel_may_read_and_write_one_array():
    def function(x: Array, y: Array, z: Array):
        y.assign(x)
        kc.launch(double, x.shape, [y], [y])
        kc.launch(scale, x.shape, [y, 3.0, 1], [y])
        kc.launch(add, x.shape, [z], [z])
        kc.launch(add, x.shape, [y], [z])

    want = 6.0 * X + 1.0
    check(function, [X, X], [want, 2.0 * X + want], outputs=["y"], in_out=["z"])


def captures(x: Array, y: Array):
    kc.launch(double, x.shape, [np.ones(4)], [y])


@kc.kernel
def neighbours(x: Array, y: Array):
    i = kc.tid()
    y[i] = x[i] + x[(i + 1) % x.shape[0]]


@kc.kernel
def written_first(x: Array, y: Array):
    i = kc.tid()
    y[i] = 1.0
    y[i] += x[i]


@kc.kernel
def repeated(x: Array, y: Array):
    i = kc.tid()
    for _ in range(2):
        y[i] = 2.0 * x[i]


def overlaps(x: Array, y: Array):
    y.assign(x)
    kc.launch(neighbours, x.shape, [y], [y])


def loads_after(x: Array, y: Array):
    y.assign(x)
    kc.launch(written_first, x.shape, [y], [y])


def loads_in_a_loop(x: Array, y: Array):
    y.assign(x)
    kc.launch(repeated, x.shape, [y], [y])


def returns(x: Array, y: Array):
    return kc.zeros_like(x)


def other_rank(x: Array, y: Array):
    kc.launch(double, (2, 2), [x], [y])


def other_type(x: Array, y: Array):
    kc.launch(move, x.shape, [Motion(), x, y])


def uses_view(x: Array, y: Array):
    kc.launch(double, 2, [x.reshape(2, 2)], [y])


def uses_slice(x: Array, y: Array):
    kc.launch(double, 2, [x[::2]], [y])


def writes_foreign(x: Array, y: Array):
    FOREIGN.assign(1.0)


FOREIGN = kc.zeros(4, kc.float64)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (reads_data, "the elements of 'x' are read while the launches are recorded"),
        (reads_number, "the elements of 'x' are read"),
        (never_writes, "output 'y' is never written"),
        (writes_input, "'x' is written, but it is neither"),
        (reads_output, "'y' is read before it was written"),
        (captures, "found an array that is no argument of the function"),
        (overlaps, "'x' and 'y' are one array, which the kernel writes"),
        (loads_after, "'x' and 'y' are one array, which the kernel writes"),
        (loads_in_a_loop, "'x' and 'y' are one array, which the kernel writes"),
        (returns, "expected a function that returns nothing"),
        (other_rank, "expected a launch shape of rank 1, found rank 2"),
        (other_type, "argument 'x': expected array"),
        (uses_view, "'x': views of arrays are not recorded"),
        (uses_slice, "'x': views of arrays are not recorded"),
        (writes_foreign, "an array that is no argument is written"),
    ],
)
def test_operations_without_a_record_are_refused(function: Callable[..., Any], text: str):
    with pytest.raises(kc.KernelError, match=text):
        record(interface(function), [X])


def test_a_scalar_that_is_an_array_is_not_read():
    def function(x: Array, repeat: int, y: Array):
        for _ in range(repeat):
            kc.launch(double, x.shape, [x], [y])

    with pytest.raises(kc.KernelArgumentError, match="the value of 'repeat' is read") as caught:
        record(interface(function), [X, None])
    assert "range(repeat)" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"outputs": ["z"]}, "'z' is no array parameter"),
        ({"outputs": []}, "no parameter is a result"),
        ({"output_dims": {"x": 1}}, "output_dims: 'x' is no output"),
        (
            {"output_dims": (1, 2)},
            "output 'y': expected a shape with 1 dimension, found one with 2",
        ),
    ],
)
def test_interfaces_are_checked(options: dict[str, Any], text: str):
    with pytest.raises(kc.KernelArgumentError, match=text):
        interface(never_writes, Spec(**options))


def test_parameters_have_one_type():
    def function(x: kc.array(dtype=Any), y: Array):
        pass

    with pytest.raises(kc.KernelArgumentError, match="parameter 'x': expected one type"):
        interface(function)
