"""What ``kc.explain`` says of rows: loops along them, named elements, what is left of them."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import kernelcore as kc
from kernelcore.base import native
from kernelcore.base.host import host
from tests.bench.framework_kernels import product
from tests.helpers.vectorised.along_rows import softmax
from tests.helpers.vectorised.columns import column_sum


@kc.kernel
def doubled_rows(x: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i = kc.tid()
    for j in range(x.shape[1]):
        y[i, j] = kc.exp(kc.sin(x[i, j]))


def test_independent_iterations_run_along_one_row_after_the_other() -> None:
    found = kc.explain(doubled_rows)
    assert [a.how for a in found.accesses] == ["adjacent elements"] * 2
    assert [loop.how for loop in found.loops] == [
        "32 or 8 iterations at once, lane after lane of a gang"
    ]


def test_loops_that_share_the_values_of_a_row() -> None:
    hows = [loop.how for loop in kc.explain(softmax).loops]
    assert [how.rsplit("; ", 1)[-1] for how in hows[1:]] == [
        "in long rows it keeps values for later loops",
        "in long rows it takes values that an earlier loop has kept",
    ]
    assert "values" not in hows[0]


@kc.kernel
def lengths(x: kc.array2d[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = kc.sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1])


@kc.kernel
def column_sums(x: kc.array2d[float], y: kc.array[float]):
    i, j = kc.tid()
    kc.atomic_add(y, j, x[i, j])


def test_rows_that_are_named_by_constants_are_adjacent() -> None:
    found = {a.array: a.how for a in kc.explain(lengths).accesses}
    assert found["x"] == "adjacent rows of 2 elements, which are sorted into registers"


@kc.kernel
def edge_lengths(
    x: kc.array[kc.vec3], a: kc.array[kc.int32], b: kc.array[kc.int32], y: kc.array[float]
):
    i = kc.tid()
    y[i] = kc.length(x[a[i]] - x[b[i]])


def test_elements_that_lie_apart_are_rows() -> None:
    found = [a for a in kc.explain(edge_lengths).accesses if a.array == "x"]
    assert {a.how for a in found} == {"an element of 3 components per lane, transposed"}
    assert all(a.is_scattered for a in found)


def test_the_remainder_of_short_rows_is_under_a_mask() -> None:
    found = kc.explain(column_sums)
    assert found.bodies.has_tail == (host().least_masked_bytes <= 4)
    assert ("under a mask" in str(found)) == found.bodies.has_tail


def test_sums_of_tiles_are_rounded_once() -> None:
    found = kc.explain(product(kc, kc.float32))
    assert found.is_contracted == native.has_fma
    assert ("rounded once (fma)" in str(found)) == native.has_fma
    assert not kc.explain(lengths).is_contracted


def test_loops_down_columns_run_for_many_gangs() -> None:
    text = str(kc.explain(column_sum))
    assert "loops down columns take 8 rows at a time, for many gangs of a row together" in text
    assert "down columns" not in str(kc.explain(softmax))
