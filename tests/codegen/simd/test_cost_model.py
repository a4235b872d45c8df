"""What the cost model chooses: gangs, registers per value, rows that run together, bodies."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false

from __future__ import annotations

from dataclasses import replace

import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS, Host, gathers_at_full_speed, host
from kernelcore.codegen.analysis.uniformity import row_major_accesses
from kernelcore.codegen.reduction.accumulation import adds_in_order
from kernelcore.codegen.simd.bodies import (
    MANY_GANGS,
    NARROW_GANG,
    Bodies,
    choose_bodies,
    joins_rows,
)
from kernelcore.codegen.simd.cost_model import (
    MAX_EQNS_OF_MANY_BODIES,
    best_gang,
    best_tile,
    rows_per_tile,
)
from kernelcore.codegen.simd.interleaved import sorted_lanes
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import (
    FLOAT_LANES_OF_SUMS,
    VectorStrategy,
    choose_strategy,
    loops_in_parts,
)
from kernelcore.ir.core import Func
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.pipeline import optimize
from tests.codegen.simd.test_adjoints import adjoint_of_density
from tests.helpers.vectorised.case import F32, F32_2D, VEC3
from tests.helpers.vectorised.loops import density, sparse_product
from tests.helpers.vectorised.row_products import (
    far_rows,
    row_distance,
    row_product,
    weighted_rows,
)
from tests.helpers.vectorised.rows import adjoint_of_product, around, crossed, product, updated

I32_2D = kc.array2d[kc.int32]


@kc.kernel
def sums(x: F32, y: F32):
    i = kc.tid()
    y[i] += 0.5 * x[i]


@kc.kernel
def waves(x: F32, y: F32):
    i = kc.tid()
    y[i] = kc.sin(x[i]) * kc.exp(-x[i])


@kc.kernel
def layer(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[0]):
        total += kc.tanh(x[k] * x[i])
    y[i] = total


@kc.kernel
def directions(x: VEC3, y: VEC3):
    i = kc.tid()
    y[i] = kc.normalize(x[i])


@kc.kernel
def sums_of_vectors(x: VEC3, y: VEC3):
    i = kc.tid()
    y[i] += 0.5 * x[i]


@pytest.mark.parametrize(
    ("kernel", "registers"),
    [(sums, 2), (waves, 4), (layer, 4), (directions, 2), (sums_of_vectors, 1)],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_registers_per_value(kernel: kc.Kernel, registers: int) -> None:
    lanes = best_gang(optimize(kernel.func), FLOAT_LANES_OF_SUMS)
    assert lanes == registers * FLOAT_LANES_OF_SUMS


def test_lanes_of_a_register_and_components_have_no_common_divisor() -> None:
    assert sorted_lanes(64, 3, kc.float32) == 16
    assert sorted_lanes(8, 3, kc.float32) == 8
    assert sorted_lanes(64, 9, kc.float64) == 8
    assert sorted_lanes(64, 1, kc.float32) is None
    assert sorted_lanes(64, 6, kc.float32) is None


@kc.kernel
def gathers_rows(x: F32_2D, at: I32_2D, y: F32_2D):
    i = kc.tid()
    for j in range(x.shape[1]):
        total = 0.0
        for k in range(at.shape[1]):
            total += kc.exp(kc.tanh(x[i, j] - x[at[i, k], j]))
        y[i, j] = total


def test_lanes_are_iterations_that_access_neighbours_where_threads_do_not() -> None:
    strategy = choose_strategy(optimize(gathers_rows.func), host())
    assert (strategy.gang, strategy.loop_lanes) == (1, LOOP_LANES)
    # The order of sums depends on the choice, so the processor must not decide it.
    assert best_gang(optimize(gathers_rows.func), FLOAT_LANES_OF_SUMS) == 1
    found = kc.explain(gathers_rows)
    reason = "iterations of 'for j in range(x.shape[1]):' (line"
    assert reason in str(found)
    assert "access neighbours, threads elements that lanes would access one by one" in str(found)


@kc.kernel
def keeps_two(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total, largest = kc.float32(0.0), kc.float32(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
        largest = kc.max(largest, b[k, j])
        largest = kc.min(largest, total)
    c[i, j] = total + largest


@kc.kernel
def shares_nothing(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    total = kc.float32(0.0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[i, j]
    c[i, j] = total


@pytest.mark.parametrize(
    ("func", "rows"),
    [
        (optimize(product.func), 4),
        (optimize(keeps_two.func), 2),
        (optimize(shares_nothing.func), 1),
        (adjoint_of_product(), 4),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_rows_run_together_where_registers_hold_them(func: Func, rows: int) -> None:
    assert rows_per_tile(func, gang=64, float_lanes=16) == rows
    assert rows_per_tile(func, gang=1024, float_lanes=16) == 1


def test_many_rows_run_together_in_place_of_many_registers_per_value() -> None:
    func = optimize(product.func)
    gangs = {lanes: best_gang(func, lanes) for lanes in (16, 8, 4)}
    assert gangs == {16: 64, 8: 32, 4: 16}
    tiles = [best_tile(func, gang, lanes) for lanes, gang in gangs.items()]
    assert tiles == [(8, 32, 16), (4, 16, 8), (4, 8, 4)]


def test_gangs_of_tiles_add_up_what_other_gangs_do() -> None:
    assert best_tile(adjoint_of_product(), 64, 16) == (4, 64, 0)


@pytest.mark.parametrize(
    ("kernel", "most"),
    [(row_product, 4096), (row_distance, 4096), (weighted_rows, 1365), (far_rows, 0)],
    ids=lambda v: getattr(v, "name", None),
)
def test_tiles_transpose_rows_that_all_rows_of_the_grid_read(kernel: kc.Kernel, most: int) -> None:
    func = optimize(kernel.func)
    assert {loop.most_in_panels for loop in loops_in_parts(func).values()} == {most}
    assert rows_per_tile(func, best_gang(func, 16), float_lanes=16) == (8 if most else 1)


def test_rows_of_long_iterations_run_one_by_one_where_registers_are_few() -> None:
    tiles = {k: rows_per_tile(optimize(k.func), 16, 8) for k in (row_product, weighted_rows)}
    assert tiles == {row_product: 4, weighted_rows: 1}


@kc.kernel
def row_total(x: F32_2D, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    y[i] = total


@kc.kernel
def row_copy(x: F32_2D, y: F32_2D):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(x[i, k])


@kc.kernel
def row_in_place(x: F32_2D):
    i = kc.tid()
    for k in range(x.shape[1]):
        x[i, k] = kc.exp(x[i, k])


def test_gangs_that_only_read_rows_of_one_array_are_wide() -> None:
    assert best_gang(optimize(row_total.func), 8) == 16
    assert best_gang(optimize(row_copy.func), 8) == 8
    assert best_gang(optimize(row_in_place.func), 8) == 8
    assert best_gang(optimize(row_total.func), 16) == 16


def test_form_follows_from_the_work_of_an_iteration() -> None:
    adjoint, _ = adjoint_of_density(10)
    least = host().least_masked_bytes
    vectorised = VectorStrategy(loop_lanes=LOOP_LANES, least_masked_bytes=least)
    assert [choose_strategy(optimize(f), host()) for f in (density.func, adjoint.func)] == [
        vectorised
    ] * 2
    assert choose_strategy(optimize(sparse_product.func), host()) == VectorStrategy()


@kc.kernel
def unrolled(x: F32, n: int, y: F32):
    i = kc.tid()
    v = x[i]
    for _ in range(n):
        for step in kc.static(tuple(range(60))):
            v = kc.tanh(0.5 * v + float(step)) + kc.sin(v)
    y[i] = v


@kc.kernel
def unrolled_once(x: F32, y: F32):
    i = kc.tid()
    v = x[i]
    for step in kc.static(tuple(range(60))):
        v = kc.tanh(0.5 * v + float(step)) + kc.sin(v)
    y[i] = v


def test_few_threads_of_large_kernels_are_a_gang_where_they_have_loops() -> None:
    for kernel, lanes in ((unrolled, NARROW_GANG), (unrolled_once, 1)):
        func = optimize(kernel.func)
        assert len(list(walk_eqns(func.body))) > MAX_EQNS_OF_MANY_BODIES
        assert choose_bodies(func, 32, 1) == Bodies(lanes)


@kc.kernel
def rows_summed(x: F32_2D, sums: F32):
    i, j = kc.tid()
    kc.atomic_add(sums, i, x[i, j])


def test_sums_of_gangs_do_not_depend_on_the_processor() -> None:
    func = optimize(rows_summed.func)
    assert not adds_in_order(func)
    hosts = [replace(host(), features=f) for f in ("", "+avx", "+avx,+avx512f")]
    lanes = {choose_strategy(func, other).gang for other in hosts}
    assert len(lanes) == 1
    assert lanes != {1}


@kc.kernel
def wrapped(x: F32_2D, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = x[i, (j + 1) % x.shape[1]] - x[i, j]


@kc.kernel
def wrapped_float64(x: kc.array2d[kc.float64], y: kc.array2d[kc.float64]):
    i, j = kc.tid()
    y[i, j] = x[i, (j + 1) % x.shape[1]] - x[i, j]


def test_gangs_of_rows_with_a_middle_fill_a_register_or_have_eight_threads() -> None:
    for kernel, features, lanes in (
        (wrapped, "", 8),
        (wrapped, "+avx", 8),
        (wrapped, "+avx,+avx512f,+avx512bw", 16),
        (wrapped_float64, "+avx", 8),
        (wrapped_float64, "+avx,+avx512f,+avx512bw", 8),
    ):
        func = optimize(kernel.func)
        assert choose_strategy(func, replace(host(), features=features)).gang == lanes


@kc.kernel
def columns_summed(x: F32_2D, sums: F32):
    i, j = kc.tid()
    kc.atomic_add(sums, j, x[i, j])


@kc.kernel
def columns_scaled(x: kc.array2d[kc.float64], w: kc.array[kc.float64], y: kc.array2d[kc.float64]):
    i, j = kc.tid()
    y[i, j] = x[i, j] * w[j]


@pytest.mark.parametrize(("kernel", "lanes"), [(columns_summed, 16), (columns_scaled, 8)])
def test_gangs_of_rows_that_are_not_joined_are_narrow(kernel: kc.Kernel, lanes: int) -> None:
    func = optimize(kernel.func)
    for features in ("+avx", "+avx,+avx512f,+avx512bw"):
        assert choose_strategy(func, replace(host(), features=features)).gang == lanes
    assert choose_bodies(func, lanes, 1).tail_lanes == lanes


@kc.kernel
def sines(x: F32_2D, b: F32, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = kc.sin(x[i, j] + b[j])


@kc.kernel
def sines_of_neighbours(x: F32_2D, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = kc.sin(x[(i + 1) % x.shape[0], j] + x[i, (j + 1) % x.shape[1]])


@kc.kernel
def sines_of_vectors(x: kc.array2d[kc.vec3], b: F32, y: kc.array2d[kc.vec3]):
    i, j = kc.tid()
    for c in range(3):
        y[i, j][c] = kc.sin(x[i, j][c] + b[j])


@pytest.mark.parametrize(
    ("kernel", "limit", "tail"),
    [(sines, 1, NARROW_GANG), (sines_of_neighbours, 2, 0), (sines_of_vectors, MANY_GANGS, 0)],
)
def test_rows_with_a_bias_are_not_joined(kernel: kc.Kernel, limit: int, tail: int) -> None:
    """Unless ends of rows have other code, or none under a mask."""
    bodies = choose_bodies(optimize(kernel.func), 32, 1)
    assert (bodies.collapse_limit, bodies.tail_lanes) == (limit, tail)


def test_code_under_masks_needs_masked_accesses() -> None:
    func = optimize(columns_summed.func)
    assert choose_bodies(func, 16, 1, least_masked_bytes=4).has_tail
    assert not choose_bodies(func, 16, 1, least_masked_bytes=NO_MASKS).has_tail


@kc.kernel
def all_scaled(x: F32_2D, y: F32_2D):
    i, j = kc.tid()
    y[i, j] = 0.5 * x[i, j]


def test_rows_that_are_joined_have_no_code_for_remainders() -> None:
    func = optimize(all_scaled.func)
    assert joins_rows(func)
    assert not choose_bodies(func, 32, 1).has_tail


@pytest.mark.parametrize(("kernel", "count"), [(updated, 3), (around, 5), (crossed, 10)])
def test_accesses_that_follow_the_grid(kernel: kc.Kernel, count: int) -> None:
    assert len(row_major_accesses(optimize(kernel.func))) == count


@pytest.mark.parametrize(
    ("features", "least_masked_bytes", "gathers"),
    [
        ("+sse2,-avx,-avx512bw", NO_MASKS, False),
        ("+sse2,+avx,+avx2,-avx512f", 4, False),
        ("+avx,+avx512f,-avx512bw", 4, True),
        ("+avx,+avx512f,+avx512bw", 1, True),
        ("+neon", NO_MASKS, False),
    ],
)
def test_elements_that_processors_mask_and_gather(
    features: str, least_masked_bytes: int, gathers: bool
) -> None:
    found = Host("any", "any", features, (22,))
    assert found.least_masked_bytes == least_masked_bytes
    assert found.gathers == (gathers and gathers_at_full_speed())
