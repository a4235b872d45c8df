"""Rows whose elements a kernel names by constants: elements of code for packed arrays."""

# pyright: reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.codegen.analysis.component_groups import MAX_INTERLEAVED, whole_elements
from kernelcore.codegen.analysis.small_rows import rows_as_elements
from kernelcore.codegen.simd.strategy import choose_strategy
from kernelcore.ir.core import Func
from kernelcore.ir.op import WRITES
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.pipeline import optimize
from kernelcore.passes.vmap import batch
from tests.helpers.kernel_harness import adjoint_func
from tests.helpers.vectorised.case import F32, F32_2D, I32

F32_3D = kc.array3d[kc.float32]


@kc.kernel
def lengths(x: F32_2D, y: F32):
    i = kc.tid()
    y[i] = kc.sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + x[i, 2] * x[i, 2])


@kc.kernel
def turned(x: F32_2D, angle: F32, y: F32_2D):
    i = kc.tid()
    c, s = kc.cos(angle[i]), kc.sin(angle[i])
    y[i, 0] = c * x[i, 0] - s * x[i, 1]
    y[i, 1] = s * x[i, 0] + c * x[i, 1]
    y[i, 2] = x[i, 2]


@kc.kernel
def grey(x: F32_3D, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = 0.3 * x[i, j, 0] + 0.6 * x[i, j, 1] + 0.1 * x[i, j, 2]


@kc.kernel
def turned_by(x: F32_3D, v: F32_2D, y: F32_2D):
    i = kc.tid()
    a, b = v[i, 0], v[i, 1]
    y[i, 0] = x[i, 0, 0] * a + x[i, 0, 1] * b
    y[i, 1] = x[i, 1, 0] * a + x[i, 1, 1] * b
    y[i, 2] = x[i, 2, 0] * a + x[i, 2, 1] * b


@kc.kernel
def diagonal(x: F32_3D, y: F32):
    i = kc.tid()
    y[i] = x[i, 0, 0] + x[i, 1, 1]


@kc.kernel
def first_rows(x: F32_3D, y: F32):
    i = kc.tid()
    y[i] = x[i, 0, 0] + x[i, 0, 1]


@kc.kernel
def second_alone(x: F32_2D, y: F32):
    i = kc.tid()
    y[i] = x[i, 1]


@kc.kernel
def any_place(x: F32_2D, at: I32, y: F32):
    i = kc.tid()
    y[i] = x[i, 0] + x[i, 1] + x[i, at[i]]


@kc.kernel
def one_row(x: F32_2D, y: F32):
    i = kc.tid()
    y[i] = x[0, 0] + x[0, 1]


@kc.kernel
def long_rows(x: F32_2D, y: F32):
    i = kc.tid()
    total = x[i, 0]
    for k in kc.static(tuple(range(1, 17))):
        total += x[i, k]
    y[i] = total


def types_of(func: Func) -> dict[str, tuple[int, ...]]:
    """The components of elements, by array."""
    params = rows_as_elements(func).params
    return {p.name: p.type.components for p in params if isinstance(p.type, ArrayType)}


@pytest.mark.parametrize(
    ("kernel", "rows"),
    [
        (lengths, (3,)),
        (turned, (3,)),
        (grey, (3,)),
        (turned_by, (3, 2)),
        # Lanes access one row of every matrix, which are not adjacent: each lane loads its own.
        (first_rows, (2,)),
        (diagonal, ()),
        # The place of an element has to be known, and what is before it named.
        (second_alone, ()),
        (any_place, ()),
        # Lanes load it once.
        (one_row, ()),
        (long_rows, ()),
    ],
)
def test_rows_that_are_named_as_a_whole_are_elements(
    kernel: kc.Kernel, rows: tuple[int, ...]
) -> None:
    assert MAX_INTERLEAVED < 17
    assert types_of(optimize(kernel.func))["x"] == rows


def test_derived_kernels_know_the_whole_row() -> None:
    # It loads two elements of a row of x, and adds to all three of its cotangent.
    types = types_of(adjoint_func(turned))
    assert [types[name] for name in ("x", "ct_x", "ct_y")] == [(3,), (3,), (3,)]


def test_batches_of_vectors_are_rows() -> None:
    @kc.kernel
    def norm(x: F32, y: F32):
        y[0] = kc.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2])

    assert types_of(optimize(batch(norm.func, [True, True], is_point=True)))["x"] == (3,)


def test_little_arithmetic_runs_in_gangs() -> None:
    func = optimize(lengths.func)
    assert choose_strategy(func, host()).gang == 1
    assert choose_strategy(rows_as_elements(func), host()).gang > 1


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 100])
@pytest.mark.parametrize("form", ["longer", "Fortran", "backwards", "every other"])
@pytest.mark.parametrize(("kernel", "columns"), [(lengths, 0), (turned, 3)])
def test_rows_of_other_lengths_and_strides_have_the_same_bits(
    kernel: kc.Kernel, columns: int, form: str, count: int
) -> None:
    rng = np.random.default_rng(count)
    x, angle = (rng.normal(size=s).astype(np.float32) for s in ((count, 3), count))
    other = {
        "longer": np.hstack([x, x])[:, :4],
        "Fortran": np.asfortranarray(x),
        "backwards": x[::-1, ::-1].copy()[::-1, ::-1],
        "every other": np.repeat(x, 2, axis=0)[::2],
    }[form]
    found: list[Any] = []
    for given in (x, other):
        y = np.zeros((count, columns) if columns else count, np.float32)
        kc.launch(kernel, count, [given, angle, y] if columns else [given, y])
        found.append(y)
    np.testing.assert_array_equal(found[1], found[0])
    if not columns:
        np.testing.assert_allclose(found[0], np.linalg.norm(x, axis=1), rtol=1e-6)


@kc.kernel
def added(x: F32, z: F32_2D):
    i = kc.tid()
    kc.atomic_add(z, i, 1, x[i])
    kc.atomic_add(z, i, 0, x[i + 1])
    kc.atomic_add(z, i, 1, 2.0 * x[i])


@kc.kernel
def old_used(x: F32, y: F32, z: F32_2D):
    i = kc.tid()
    y[i] = kc.atomic_add(z, i, 1, x[i])
    kc.atomic_add(z, i, 0, x[i])


@kc.kernel
def read_between(x: F32, y: F32, z: F32_2D):
    i = kc.tid()
    kc.atomic_add(z, i, 1, x[i])
    y[i] = z[i, 1]
    kc.atomic_add(z, i, 0, x[i])


@kc.kernel
def branch_between(x: F32, z: F32_2D):
    i = kc.tid()
    kc.atomic_add(z, i, 1, x[i])
    if x[i] > 0.0:
        kc.atomic_add(z, i, 1, 2.0)
    kc.atomic_add(z, i, 0, x[i])


@kc.kernel
def checked_between(x: F32, z: F32_2D):
    i = kc.tid()
    kc.atomic_add(z, i, 1, x[i])
    assert x[i] < 100.0
    kc.atomic_add(z, i, 0, x[i])


@pytest.mark.parametrize(
    ("kernel", "together"),
    [(added, 3), (old_used, 0), (read_between, 0), (branch_between, 0), (checked_between, 0)],
)
def test_additions_to_an_element_are_made_together(kernel: kc.Kernel, together: int) -> None:
    func = rows_as_elements(optimize(kernel.func))
    found = whole_elements(func)
    writes = [e for e in walk_eqns(func.body) if e.op.kind in WRITES]
    assert max(len(found.get(e, ())) for e in writes) == together


@pytest.mark.parametrize("kernel", [added, branch_between])
def test_several_additions_to_a_component_keep_their_order(kernel: kc.Kernel) -> None:
    x = np.random.default_rng(0).normal(size=101).astype(np.float32)
    z = np.full((100, 2), 1e3, np.float32)
    kc.launch(kernel, 100, [x, z])
    one = x[:100] + np.float32(1e3)
    if kernel is added:
        wanted = np.stack([x[1:] + np.float32(1e3), one + np.float32(2) * x[:100]], 1)
    else:
        wanted = np.stack([one, np.where(x[:100] > 0, one + np.float32(2), one)], 1)
    np.testing.assert_array_equal(z, wanted)


@kc.kernel
def uniform_last(x: F32, y: F32_2D, v: kc.array1d[kc.vec2]):
    i = kc.tid()
    if i == 5:
        y[0, 0] = x[i]
        y[0, 1] = 1.0
        v[0] = kc.vec2(x[i], 1.0)
    y[i + 1, 0] = x[i]
    y[i + 1, 1] = x[i]


@pytest.mark.parametrize("columns", [2, 3])
def test_elements_are_stored_with_components_that_all_lanes_share(columns: int) -> None:
    x = np.random.default_rng(0).normal(size=40).astype(np.float32)
    y, v = np.zeros((41, columns), np.float32), np.zeros((1, 2), np.float32)
    kc.launch(uniform_last, 40, [x], [y, v])
    np.testing.assert_array_equal(y[0, :2], [x[5], 1.0])
    np.testing.assert_array_equal(v[0], [x[5], 1.0])
