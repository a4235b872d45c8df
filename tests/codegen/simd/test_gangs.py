"""Machine code of gangs of threads = the interpreter, bit for bit, whatever the gang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.codegen import abi
from kernelcore.codegen.simd.cost_model import NARROW_GANG, choose_bodies
from kernelcore.codegen.simd.strategy import LANES, adds_in_order, form_for
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import agree, launch, unoptimised
from tests.helpers.operations import run_operation, smooth
from tests.helpers.patterns import PATTERNS, Pattern
from tests.passes.autodiff.test_derivatives import directions, float_operands, setup

F32, I32 = kc.array(kc.float32, 1), kc.array(kc.int32, 1)
F64_2D, VEC3, MAT33 = kc.array(kc.float64, 2), kc.array(kc.vec3, 1), kc.array(kc.mat33, 1)
gangs = pytest.mark.parametrize("lanes", LANES)
patterns = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
# Two gangs of the largest size, and ends that are none.
SIZE = 150
CHUNKS = ((0, 3), (3, 77), (77, SIZE))


def run(kernel: kc.Kernel, lanes: int, *args: Any, dims: Sequence[int] = (SIZE,)) -> list[Any]:
    """The arrays after a launch in gangs, which are those after the interpreter."""
    chunks = CHUNKS if tuple(dims) == (SIZE,) else None
    return agree(optimize(kernel.func), args, dims, chunks, lanes)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@kc.kernel
def diverging(x: F32, y: F32, turns: I32):
    i = kc.tid()
    v = x[i]
    n = 0
    while kc.abs(v) < 8.0:
        n += 1
        if n % 3 == 0:
            continue
        if n > 20:
            break
        v = v * 1.5 + 0.25
        if v < -4.0:
            turns[i] = -n
            return
    for k in range(i % 7):
        if k == 5:
            break
        v += x[k] * kc.float32(n)
    for k in range(i, 2 * i, 3):
        v -= x[k % 5]
    y[i] = v
    turns[i] = n


@gangs
def test_threads_take_different_paths(lanes: int) -> None:
    turns = np.zeros(SIZE, np.int32)
    *_, turns = run(diverging, lanes, floats(SIZE), floats(SIZE), turns)
    assert len(set(turns.tolist())) > 8


@kc.kernel
def neighbours(x: F64_2D, y: F64_2D):
    i, j = kc.tid()
    n = y.shape[1]
    up = x[i, j + 1] if i % 2 == 0 else x[i, n - 1 - j]
    if j > 0 and j < n - 1:
        y[i, j] = up + 0.5 * y[i, j]
    else:
        y[i, n - 1 - j] = -up


@gangs
@pytest.mark.parametrize("shape", [(3, 150), (5, 64), (40, 3), (1, 1), (7, 33)])
def test_rows_of_any_length(lanes: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(shape[0], shape[1] + 1)), rng.normal(size=shape)
    run(neighbours, lanes, x, y, dims=shape)


@gangs
@pytest.mark.parametrize("step", [2, -1])
def test_arrays_that_are_not_packed(lanes: int, step: int) -> None:
    x, y = floats(2 * SIZE)[::step][:SIZE], floats(2 * SIZE, seed=1)[::step][:SIZE]
    run(diverging, lanes, x, y, np.zeros(SIZE, np.int32))


@kc.kernel
def units(m: MAT33, v: VEC3, w: VEC3, out: F32):
    i = kc.tid()
    u = m[i] @ v[i]
    w[i] += u
    if u[0] > 0.0:
        v[i] = kc.cross(u, w[i])
        m[i][1] = u
    out[i] = v[i][2] if i % 2 == 0 else m[i][i % 3, 1]


@kc.kernel
def waves(x: VEC3, y: VEC3, total: F32):
    i = kc.tid()
    v = x[i]
    if v[0] > 0.0:
        v = kc.vec3(kc.sin(v[1]), kc.exp(-v[0]), kc.pow(kc.abs(v[2]), 1.5))
        y[i] += v
    total[i] = kc.tanh(kc.dot(v, v)) + kc.log(1.0 + kc.abs(v[1]))


@gangs
@pytest.mark.parametrize("step", [2, -3])
def test_gangs_of_elements_that_are_apart(lanes: int, step: int) -> None:
    assert choose_bodies(optimize(waves.func), 64, 1).general_lanes == NARROW_GANG
    x, y = (floats(3 * SIZE, 5, seed=k)[::step, 1:4][:SIZE] for k in range(2))
    *_, total = run(waves, lanes, x, y, floats(2 * SIZE)[::2])
    assert np.isfinite(total).all()


@kc.kernel
def damped(x: F64_2D, turns: int, y: F64_2D):
    i, j = kc.tid()
    v = x[i, j]
    for _ in range(turns):
        if v < 0.5:
            break
        v = kc.sin(v) * kc.exp(-v) + kc.float64(j % 3)
    if j % 5 != 4:
        y[i, j] = v


@gangs
@pytest.mark.parametrize("shape", [(3, 150), (40, 3), (1, 1)])
def test_ends_of_rows_under_a_mask(lanes: int, shape: tuple[int, int]) -> None:
    assert choose_bodies(optimize(damped.func), 64, 1).general_lanes == NARROW_GANG
    x, y = np.random.default_rng(1).normal(size=(2, *shape))
    run(damped, lanes, x, 4, y, dims=shape)


@gangs
def test_elements_of_several_components(lanes: int) -> None:
    args = [floats(SIZE, 3, 3), floats(SIZE, 3, seed=1), floats(SIZE, 3, seed=2), floats(SIZE)]
    run(units, lanes, *args)


@kc.kernel
def scattered(at: I32, x: F32, count: I32, seen: I32, last: F32):
    i = kc.tid()
    k = at[i]
    kc.atomic_add(count, k % 5, 1)
    if x[k] > 0.0:
        seen[i] = k
    x[k] = x[k] * 2.0 + kc.float32(i)
    last[0] = 3.0


@gangs
def test_scattered_elements_and_additions(lanes: int) -> None:
    at = np.random.default_rng(3).permutation(SIZE).astype(np.int32)
    seen = np.zeros(SIZE, np.int32)
    run(scattered, lanes, at, floats(SIZE), np.zeros(6, np.int32), seen, floats(1))


@kc.kernel
def counted(x: I32, count: I32, seen: I32):
    i = kc.tid()
    # A gang looks for its lanes by the same instruction.
    k = kc.ctz(x[i])
    seen[i] = k
    kc.atomic_add(count, k % 4, 1)


@gangs
def test_instructions_of_masks_in_kernels(lanes: int) -> None:
    x = np.random.default_rng(3).integers(0, 99, SIZE).astype(np.int32)
    run(counted, lanes, x, np.zeros(4, np.int32), np.zeros(SIZE, np.int32))


@kc.kernel
def checked(x: F32, y: F32):
    i = kc.tid()
    if i > 20:
        assert x[i] < 2.0
    y[i] = x[i]


@gangs
def test_an_assertion_fails_in_any_lane(lanes: int) -> None:
    func, x = optimize(checked.func), np.zeros(SIZE, np.float32)
    assert launch(func, [x, x.copy()], SIZE, lanes=lanes) == abi.STATUS_OK
    x[3] = 9.0
    assert launch(func, [x, x.copy()], SIZE, lanes=lanes) == abi.STATUS_OK
    x[140] = 9.0
    assert launch(func, [x, x.copy()], SIZE, lanes=lanes) == abi.STATUS_FIRST_ASSERTION


@kc.kernel
def chained(x: F32, n: I32, y: F32):
    i = kc.tid()
    v = x[i]
    for k in range(n[i]):
        if v > 0.5:
            v = kc.sin(v) * kc.float32(k + 1)
        elif v > -4.0:
            v = v * v + 0.125
    y[i] = v


@gangs
def test_stacks_of_threads_that_part(lanes: int) -> None:
    op = kernel_operation(chained, ["y"])
    n = np.random.default_rng(4).integers(0, 70, SIZE).astype(np.int32)
    adjoint = derive.vjp(op, [0], [0]).operation
    args = [floats(SIZE), n, floats(SIZE, seed=5)]
    want = run_operation(adjoint, args, lanes=1)
    found = run_operation(adjoint, args, lanes=lanes)
    np.testing.assert_array_equal(found, want)
    assert np.count_nonzero(want[0]) > SIZE // 2


@kc.kernel
def nested(x: F32, n: I32, y: F32):
    i = kc.tid()
    v = x[i]
    turns = 0
    while kc.abs(v) < 9.0 and turns < n[i]:
        turns += 1
        v = v * 1.5 + 0.25
        for k in range(i % 3, n[i] % 5):
            if v > 0.5:
                v = kc.sin(v) * kc.float32(k + 1)
            else:
                v += v * v * 0.125
    y[i] = v


@gangs
@pytest.mark.parametrize("second", [derive.vjp, derive.jvp])
def test_stacks_of_derivatives_of_derivatives(second: Any, lanes: int) -> None:
    n = np.random.default_rng(4).integers(0, 9, SIZE).astype(np.int32)
    first = derive.vjp(kernel_operation(nested, ["y"]), [0], [0]).operation
    args = [floats(SIZE), n, floats(SIZE, seed=5)]
    derived = second(first, [0, 2], [0]) if second is derive.vjp else second(first, [0, 2])
    args.append(floats(SIZE, seed=6))
    if second is derive.jvp:
        args.append(floats(SIZE, seed=7))
    want = run_operation(derived.operation, args, lanes=1)
    found = run_operation(derived.operation, args, lanes=lanes)
    for x, y in zip(want, found, strict=True):
        np.testing.assert_array_equal(y, x)
    assert np.count_nonzero(want[0]) > SIZE // 2


@patterns
def test_adjoints_in_gangs_are_those_of_single_threads(pattern: Pattern) -> None:
    op, point = setup(pattern)
    wrt = float_operands(op, point)
    base = smooth(op, point, wrt)
    cts = directions(run_operation(op, point), range(op.visible), 1)
    derived = derive.vjp(base.operation, wrt, range(op.visible)).operation
    args = [*base.operands, *cts]
    found = run_operation(derived, args, lanes=4)
    with unoptimised():
        single = run_operation(derived, args, lanes=1)
    for x, y in zip(single, found, strict=True):
        if adds_in_order(optimize(derived.func)):
            np.testing.assert_array_equal(y, x)
        else:
            np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-12)


@kc.kernel
def rows_summed(x: kc.array(kc.float32, 2), sums: F32):
    i, j = kc.tid()
    kc.atomic_add(sums, i, x[i, j])


def test_sums_of_gangs_do_not_depend_on_the_processor() -> None:
    func = optimize(rows_summed.func)
    assert not adds_in_order(func)
    hosts = [replace(host(), features=f) for f in ("", "+avx", "+avx,+avx512f")]
    lanes = {form_for(func, other).threads for other in hosts}
    assert len(lanes) == 1
    assert lanes != {1}


@kc.kernel
def some_keep_theirs(x: kc.array(dtype=Any), pairs: kc.array2d(dtype=Any)):
    i = kc.tid()
    for _ in range(i % 4):
        return
    x[i] = x[i] + x.dtype(1)
    x[i] = x[i] + x.dtype(1)
    pairs[i, 0] = x[i]
    pairs[i, 1] = x[i]


@gangs
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "int16", "float32", "float64"])
def test_masked_accesses_of_every_width(dtype: str, lanes: int) -> None:
    element = getattr(kc, dtype)
    kernel = some_keep_theirs.overload([kc.array(dtype=element), kc.array2d(dtype=element)])
    x, pairs = np.full(SIZE, 7, element.numpy), np.full((SIZE, 2), 3, element.numpy)
    x, pairs = run(kernel, lanes, x, pairs)
    np.testing.assert_array_equal(x, np.where(np.arange(SIZE) % 4 == 0, 9, 7).astype(x.dtype))
    assert (pairs[1::4] == 3).all()
