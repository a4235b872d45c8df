"""launch over plain arrays: results, adjoints, and what it refuses before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.environment import ROOT
from tests.helpers.patterns.loops import loop_with_break, newton_sqrt
from tests.helpers.patterns.memory import tv_stencil

Golden = Callable[[str, str], None]


@kc.kernel
def saxpy(x: kc.array(dtype=float), y: kc.array(dtype=float), a: float, z: kc.array(dtype=float)):
    i = kc.tid()
    z[i] = a * x[i] + y[i]


@kc.kernel
def scale_in_place(x: kc.array(dtype=kc.float64), o: kc.array(dtype=kc.float64)):
    i = kc.tid()
    o[i] *= x[i]


@kc.kernel
def total(x: kc.array2d(dtype=kc.float64), out: kc.array(dtype=kc.float64)):
    i, j = kc.tid()
    out[0] += x[i, j]


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_arrays_are_written_in_place() -> None:
    x, y, z = f32(1000), f32(1000), np.zeros(1000, np.float32)
    kc.launch(saxpy, 1000, [x, y, 2.5], [z])
    np.testing.assert_array_equal(z, np.float32(2.5) * x + y)


def test_any_strides_do() -> None:
    x, y, z = f32(40)[::-2], f32(60)[::3], np.zeros((20, 2), np.float32)[:, 1]
    kc.launch(saxpy, 20, [x, y, 1.0], [z])
    np.testing.assert_array_equal(z, x + y)


@kc.kernel
def shifted(x: kc.array[float], by: kc.array[float], z: kc.array[float]):
    i = kc.tid()
    z[i] = x[i]
    if by:
        z[i] += by[i]


def test_none_follows_arrays() -> None:
    x, z = f32(8), np.zeros(8, np.float32)
    for by in (x, None, x, None):
        kc.launch(shifted, 8, [x, by], outputs=[z])
        np.testing.assert_array_equal(z, x if by is None else x + x)
    for inputs in ([None, x], [x, None, None]):
        with pytest.raises(kc.KernelArgumentError):
            kc.launch(shifted, 8, inputs, [z][: 3 - len(inputs)])


def test_an_empty_grid_runs_nothing() -> None:
    z = np.full(3, 7.0, np.float32)
    kc.launch(saxpy, 0, [z, z, 1.0], [z])
    kc.launch(saxpy, 0, [z[:0], z[:0], 1.0], [z[:0]])
    np.testing.assert_array_equal(z, 7.0)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_accumulation_is_complete_on_any_number_of_threads(threads: int) -> None:
    before = kc.num_threads()
    x, out = np.ones((300, 301)), np.zeros(1)
    kc.set_num_threads(threads)
    try:
        kc.launch(total, x.shape, [x], [out])
    finally:
        kc.set_num_threads(before)
    assert out[0] == x.size


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        (newton_sqrt, np.sqrt),
        (loop_with_break, None),
    ],
    ids=["newton", "break"],
)
def test_adjoint_matches_central_differences(kernel: kc.Kernel, function: Any) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2.0, 6)
    ct = np.random.default_rng(1).standard_normal(6)

    def forward(x: np.ndarray) -> np.ndarray:
        y = np.zeros_like(x)
        kc.launch(kernel, x.shape, [x], [y])
        return y

    g = np.zeros_like(x)
    kc.launch(kernel, x.shape, [x], [forward(x)], [g], [ct], adjoint=True)
    h = 1e-6
    want = ct * (forward(x + h) - forward(x - h)) / (2 * h)
    np.testing.assert_allclose(g, want, rtol=1e-6)
    if function is not None:
        np.testing.assert_allclose(forward(x), function(x), rtol=1e-12)


def test_adjoint_adds_to_gradients_and_gives_those_of_scalars() -> None:
    u = np.random.default_rng(0).uniform(0.0, 1.0, (5, 6))
    ones, e = np.ones_like(u), np.zeros_like(u)
    g, gw = np.full_like(u, 3.0), np.array(4.0)
    kc.launch(tv_stencil, u.shape, [u, 0.5], [e], [g, gw], [ones], adjoint=True)
    again, gw_again = np.zeros_like(u), np.zeros(())
    kc.launch(tv_stencil, u.shape, [u, 0.5], [e], [again, gw_again], [ones], adjoint=True)
    np.testing.assert_allclose(g - 3.0, again, atol=1e-13)
    np.testing.assert_allclose(gw - 4.0, gw_again, atol=1e-13)

    def energy(w: float) -> float:
        kc.launch(tv_stencil, u.shape, [u, w], [e])
        return e.sum()

    np.testing.assert_allclose(
        gw_again, (energy(0.5 + 1e-6) - energy(0.5 - 1e-6)) / 2e-6, rtol=1e-7
    )


@kc.struct
class Pair:
    a: kc.float32
    b: kc.float32


@kc.kernel
def product(p: kc.array(dtype=Pair), z: kc.array(dtype=float)):
    i = kc.tid()
    z[i] = p[i].a * p[i].b


GIVEN = {
    "left out": {},
    "None": {"adj_inputs": [None, None, None], "adj_outputs": [None]},
    "outputs alone": {"adj_outputs": [np.full(4, 2.0, np.float32)]},
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_an_adjoint_uses_the_gradients_of_the_arrays_where_none_are_given(
    given: dict[str, Any],
) -> None:
    x, y = kc.array(f32(4), requires_grad=True), kc.array(f32(4))
    a, z = kc.array(3.0, dtype=float, requires_grad=True), kc.zeros(4, requires_grad=True)
    assert x.grad is not None
    assert z.grad is not None
    assert a.grad is not None
    x.grad.fill_(1.0)
    z.grad.fill_(2.0)
    kc.launch(saxpy, 4, [x, y, a], [z], adjoint=True, **given)
    np.testing.assert_array_equal(x.grad.numpy(), np.full(4, 7.0))
    np.testing.assert_allclose(a.grad.numpy(), 2.0 * f32(4).sum(), rtol=1e-6)


def test_an_adjoint_uses_the_gradients_of_the_fields_of_structs() -> None:
    p = kc.array([(2.0, 3.0), (5.0, 7.0)], dtype=Pair, requires_grad=True)
    kc.launch(product, 2, [p], [kc.zeros(2)], adj_outputs=[kc.ones(2)], adjoint=True)
    assert p.grad is not None
    assert [tuple(row) for row in p.grad.numpy()] == [(3.0, 2.0), (7.0, 5.0)]


X, Y, Z = f32(4), f32(4), np.zeros(4, np.float32)


def read_only() -> np.ndarray:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


def packed() -> np.ndarray:
    return np.zeros(4, np.dtype([("tag", np.int8), ("value", np.float32)]))["value"]


REFUSED: dict[str, Callable[[], object]] = {
    "dtype": lambda: kc.launch(saxpy, 4, [X.astype(np.float64), Y, 1.0], [Z]),
    "rank": lambda: kc.launch(saxpy, 4, [X[:, None], Y, 1.0], [Z]),
    "read_only": lambda: kc.launch(saxpy, 4, [X, Y, 1.0], [read_only()]),
    "unaligned": lambda: kc.launch(saxpy, 4, [packed(), Y, 1.0], [Z]),
    "count": lambda: kc.launch(saxpy, 4, [X, Y], [Z]),
    "no_array": lambda: kc.launch(saxpy, 4, [X, [1.0, 2.0], 1.0], [Z]),
    "no_number": lambda: kc.launch(saxpy, 4, [X, Y, "two"], [Z]),
    "grid_rank": lambda: kc.launch(saxpy, (2, 2), [X, Y, 1.0], [Z]),
    "negative_grid": lambda: kc.launch(saxpy, -1, [X, Y, 1.0], [Z]),
    "device": lambda: kc.launch(saxpy, 4, [X, Y, 1.0], [Z], device="gpu"),
    "called": lambda: saxpy(X, Y, 1.0, Z),
    "adjoint_without_flag": lambda: kc.launch(saxpy, 4, [X, Y, 1.0], [Z], adj_outputs=[Z]),
    "adjoint_count": lambda: kc.launch(saxpy, 4, [X, Y, 1.0], [Z], [X], [Z], adjoint=True),
    "adjoint_shape": lambda: kc.launch(
        saxpy, 4, [X, Y, 1.0], [Z], [np.zeros(1, np.float32), None, None], [Y], adjoint=True
    ),
    "adjoint_dtype": lambda: kc.launch(
        saxpy, 4, [X, Y, 1.0], [Z], [np.zeros(4), None, None], [Y], adjoint=True
    ),
    "adjoint_no_array": lambda: kc.launch(
        saxpy, 4, [X, Y, 1.0], [Z], [None, None, 0.0], [Y], adjoint=True
    ),
    "no_kernel": lambda: kc.launch(np.sin, 4, [X], [Z]),  # pyright: ignore[reportArgumentType]
    "adjoint_overlap": lambda: kc.launch(
        saxpy, 4, [X, Y, 1.0], [Z], [X, X, None], [Y], adjoint=True
    ),
    "adjoint_of_no_result": lambda: kc.launch(
        saxpy, 4, [X, Y, 1.0], [Z], [X, None, None], [None], adjoint=True
    ),
    "adjoint_of_no_input": lambda: kc.launch(
        saxpy, 4, [X, Y, 1.0], [Z], adj_outputs=[Y], adjoint=True
    ),
    "adjoint_in_place": lambda: kc.launch(
        scale_in_place, 4, [np.ones(4)], [np.ones(4)], [np.ones(4)], [np.ones(4)], adjoint=True
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_arguments_are_refused_before_anything_runs(case: str, golden_error: Golden) -> None:
    before = Z.copy()
    with pytest.raises(kc.KernelError) as caught:
        REFUSED[case]()
    text = str(caught.value).replace(f"{ROOT}/", "")
    assert case == "no_kernel" or f'File "{Path(__file__).relative_to(ROOT)}", line ' in text
    text = re.sub(r"line \d+", "line N", text)
    golden_error(case, f"{type(caught.value).__name__}: {text}")
    np.testing.assert_array_equal(Z, before)
