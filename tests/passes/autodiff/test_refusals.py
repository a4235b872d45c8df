"""Kernels without an exact derivative are refused, naming the line."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.environment import ROOT
from tests.helpers.operations import run_operation

F64 = kc.array(dtype=kc.float64)
F64_2D = kc.array2d(dtype=kc.float64)
I32 = kc.array(dtype=kc.int32)


@kc.kernel
def one_cell_for_all(x: F64, h: F64):
    i = kc.tid()
    h[0] = kc.sin(h[0] * x[i])


@kc.kernel
def cell_for_two(x: F64, h: F64):
    i = kc.tid()
    h[i // 2] *= x[i]


@kc.kernel
def cell_by_data(x: F64, index: I32, h: F64):
    i = kc.tid()
    h[index[i]] *= x[i]


@kc.kernel
def neighbour_in_place(x: F64, h: F64):
    i = kc.tid()
    h[i] = h[i + 1] * x[i]


@kc.kernel
def shifted_in_a_loop(x: F64, h: F64):
    i = kc.tid()
    for k in range(3):
        h[i + k] *= x[i]


@kc.kernel
def row_without_the_column(x: F64_2D, h: F64):
    i, j = kc.tid()
    h[i] *= x[i, j]


@kc.kernel
def sum_then_read(x: F64, total: F64, y: F64):
    i = kc.tid()
    total[0] += x[i]
    y[i] = total[0] * x[i]


@kc.kernel
def old_value_of_an_atomic(x: F64, total: F64, y: F64):
    i = kc.tid()
    y[i] = kc.atomic_add(total, 0, x[i]) * x[i]


@kc.kernel
def slot_of_a_counter(x: F64, counter: I32, y: F64):
    i = kc.tid()
    y[kc.atomic_add(counter, 0, 1)] = x[i] * x[i]


@kc.kernel
def store_and_sum(x: F64, y: F64):
    i = kc.tid()
    y[i] = x[i]
    y[0] += x[i]


@kc.struct
class Particle:
    position: kc.vec3d
    mass: kc.float64


@kc.kernel
def neighbour_of_a_vector(x: F64, h: kc.array(dtype=kc.vec3d)):
    i = kc.tid()
    h[i].x = h[i + 1].y * x[i]


@kc.kernel
def field_of_one_struct_for_all(x: F64, p: kc.array(dtype=Particle)):
    i = kc.tid()
    p[i].position *= x[i]
    p[0].mass *= x[i]


@kc.kernel
def indexed_in_place(x: F64, h: kc.indexedarray(dtype=kc.float64)):
    i = kc.tid()
    h[i] *= x[i]


@kc.kernel
def views_that_overlap(x: F64, h: F64):
    i = kc.tid()
    h[1:][i] = h[i] * x[i]


@kc.kernel
def two_ends_of_a_view(x: F64, h: F64):
    i = kc.tid()
    h[::-1][i] = h[i] * x[i]


@kc.func
def scaled(row: F64, s: kc.float64):
    for k in range(len(row)):
        row[k] *= s


@kc.kernel
def whole_array_in_a_function(x: F64, h: F64):
    i = kc.tid()
    scaled(h[:], x[i])


@kc.kernel
def component_sum_then_read(x: F64, h: kc.array(dtype=kc.vec3d)):
    i = kc.tid()
    h[0][i % 3] -= x[i]
    h[0].x = h[0].y * x[i]


REFUSED = [
    neighbour_of_a_vector,
    field_of_one_struct_for_all,
    indexed_in_place,
    views_that_overlap,
    two_ends_of_a_view,
    whole_array_in_a_function,
    component_sum_then_read,
    one_cell_for_all,
    cell_for_two,
    cell_by_data,
    neighbour_in_place,
    shifted_in_a_loop,
    row_without_the_column,
    sum_then_read,
    old_value_of_an_atomic,
    slot_of_a_counter,
    store_and_sum,
]


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda k: k.name)
@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_order_of_threads_has_no_derivative(
    kernel: kc.Kernel, mode: str, golden_error: Callable[[str, str], None]
) -> None:
    op = kernel_operation(kernel, launch_dims="x", output_dims="x")
    modes = {
        "jvp": lambda: derive.jvp(op, [0]),
        "vjp": lambda: derive.vjp(op, [0], range(op.visible)),
    }
    with pytest.raises(kc.KernelGradError) as caught:
        modes[mode]()
    text = str(caught.value).replace(f"{ROOT}/", "")
    golden_error(kernel.name, re.sub(r"line \d+", "line N", text))


@kc.kernel
def shifted(x: F64, h: F64):
    i = kc.tid()
    h[i + 1] *= x[i]


@kc.kernel
def reversed_order(x: F64, n: int, h: F64):
    i = kc.tid()
    h[n - 1 - i] *= x[i]


@pytest.mark.parametrize(
    ("kernel", "operands", "cell"),
    [
        (shifted, [np.arange(1.0, 4.0), np.arange(2.0, 7.0)], lambda i: i + 1),
        (reversed_order, [np.arange(1.0, 4.0), 3, np.arange(2.0, 5.0)], lambda i: 2 - i),
    ],
    ids=["shifted", "reversed"],
)
def test_cells_that_differ_by_thread_have_one(
    kernel: kc.Kernel, operands: list[object], cell: Callable[[int], int]
) -> None:
    op = kernel_operation(kernel, launch_dims="x")
    x, h = operands[0], operands[-1]
    assert isinstance(x, np.ndarray)
    assert isinstance(h, np.ndarray)
    last = len(operands) - 1
    ct = np.linspace(1.0, 2.0, len(h))
    ct_x, ct_h = run_operation(derive.vjp(op, [0, last], [0]).operation, [*operands, ct])
    want = ct.copy()
    for i in range(len(x)):
        want[cell(i)] *= x[i]
    np.testing.assert_allclose(ct_h, want)
    np.testing.assert_allclose(ct_x, [ct[cell(i)] * h[cell(i)] for i in range(len(x))])


@kc.func
def doubled_below(a: F64, i: int):
    a[i] = a[i] * 2.0
    return a[i] < 5.0


@kc.kernel
def writing_condition(x: F64, y: F64):
    i = kc.tid()
    y[i] = x[i]
    while doubled_below(y, i):
        pass


def test_conditions_that_write_have_a_jvp_and_no_vjp(
    golden_error: Callable[[str, str], None],
) -> None:
    op = kernel_operation(writing_condition, outputs=["y"])
    (tangent,) = run_operation(derive.jvp(op, [0]).operation, [np.array([0.5, 2.0]), np.ones(2)])
    np.testing.assert_array_equal(tangent, [16.0, 4.0])
    with pytest.raises(kc.KernelGradError) as caught:
        derive.vjp(op, [0], [0])
    text = str(caught.value).replace(f"{ROOT}/", "")
    golden_error("writing_condition", re.sub(r"line \d+", "line N", text))
