"""Debug mode: no access leaves its array, and the error says which index, where and of what."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
import torch
from jax.errors import JaxRuntimeError

import kernelcore as kc
from jax_ffi import jax_kernel
from tests.helpers import interpreter
from torch_ext import torch_op

F = np.float32


@pytest.fixture(autouse=True)
def debug_mode() -> Iterator[None]:
    kc.config.mode = "debug"
    yield
    kc.config.mode = "release"


@kc.struct
class Particle:
    pos: kc.vec3
    mass: float


@kc.kernel
def gather(x: kc.array(dtype=kc.float32), at: kc.array(dtype=Any), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 2.0 * x[at[i]]


GATHER = gather.overload({"at": kc.array(dtype=kc.int32)})


def check(kernel: kc.Kernel, dim: int, args: list[Any], match: str) -> None:
    """Machine code and interpreter refuse with the same message."""
    with pytest.raises(kc.KernelIndexError, match=match) as compiled:
        kc.launch(kernel, dim, args)
    with pytest.raises(kc.KernelIndexError, match=match) as interpreted:
        interpreter.run(kernel.func, args, dim)
    assert str(compiled.value) == str(interpreted.value)
    assert isinstance(compiled.value, IndexError)


@pytest.mark.parametrize(
    ("dtype", "index"),
    [
        (kc.int32, -1),
        (kc.int32, 5),
        (kc.int64, 5),
        (kc.int64, -(2**62)),
        (kc.int64, 2**33),
        (kc.uint8, 255),
        (kc.uint32, 2**32 - 1),
    ],
)
def test_an_index_outside_is_refused(dtype: Any, index: int) -> None:
    at = np.array([0, index, 1], dtype.numpy)
    y = np.zeros(3, F)
    check(
        gather.overload({"at": kc.array(dtype=dtype)}),
        3,
        [np.ones(5, F), at, y],
        f"index {index} is outside of axis 0 of 'x'",
    )
    assert y[1] == 0


def test_the_message_shows_the_access_and_the_extent() -> None:
    with pytest.raises(kc.KernelIndexError) as error:
        kc.launch(GATHER, 1, [np.ones(5, F), np.array([7], np.int32)], [np.zeros(1, F)])
    text = str(error.value)
    assert "whose extent is 5" in text
    assert "y[i] = 2.0 * x[at[i]]" in text
    assert text.splitlines()[3].strip() == "^" * len("x[at[i]]")
    assert "help:" in text


def test_every_index_inside_gives_the_results_of_release_mode() -> None:
    rng = np.random.default_rng(0)
    x, at = rng.random(100, F), rng.integers(0, 100, 5000).astype(np.int32)
    y = np.zeros(5000, F)
    kc.launch(GATHER, 5000, [x, at], [y])
    assert (y == 2 * x[at]).all()


def test_stores_atomics_and_later_axes_are_checked() -> None:
    @kc.kernel
    def store(y: kc.array2d(dtype=float)):
        i = kc.tid()
        y[1, i + 1] = 1.0

    @kc.kernel
    def accumulate(y: kc.array2d(dtype=float)):
        i = kc.tid()
        kc.atomic_add(y, 2 - i, 1, 1.0)

    check(store, 3, [np.zeros((2, 3), F)], "index 3 is outside of axis 1 of 'y', whose extent is 3")
    check(accumulate, 4, [np.zeros((3, 2), F)], "index -1 is outside of axis 0 of 'y'")


def test_elements_of_composites_are_checked() -> None:
    @kc.kernel
    def move(p: kc.array(dtype=Particle), v: kc.array(dtype=kc.vec3), c: int):
        i = kc.tid()
        p[i].pos = p[i].pos + v[i + 1]
        v[i][c] = p[i].mass

    particles = kc.zeros(3, Particle)
    kc.launch(move, 2, [particles, kc.zeros(3, kc.vec3), 2])
    with pytest.raises(kc.KernelIndexError, match=r"index 3 is outside of axis 0 of 'v'"):
        kc.launch(move, 3, [particles, kc.zeros(3, kc.vec3), 2])
    with pytest.raises(kc.KernelIndexError, match=r"index 3 is outside of axis 1 of 'v'"):
        kc.launch(move, 2, [particles, kc.zeros(3, kc.vec3), 3])


def test_views_are_checked_against_the_array_that_they_view() -> None:
    @kc.kernel
    def rows(x: kc.array2d(dtype=float), y: kc.array(dtype=float)):
        i = kc.tid()
        row = x[i]
        y[i] = row[2]

    kc.launch(rows, 2, [np.ones((2, 3), F)], [np.zeros(2, F)])
    with pytest.raises(kc.KernelIndexError, match="index 2 is outside of axis 1 of 'x'"):
        kc.launch(rows, 2, [np.ones((2, 2), F)], [np.zeros(2, F)])


def test_derivatives_are_checked() -> None:
    kernel = GATHER
    x, at, y = np.ones(5, F), np.array([2], np.int32), np.zeros(1, F)
    ct_x, ct_y = np.zeros(5, F), np.ones(1, F)
    kc.launch(kernel, 1, [x, at], [y], adj_inputs=[ct_x, None], adj_outputs=[ct_y], adjoint=True)
    assert ct_x.tolist() == [0, 0, 2, 0, 0]
    at[0] = 5
    with pytest.raises(kc.KernelIndexError, match="index 5 is outside of axis 0"):
        kc.launch(
            kernel, 1, [x, at], [y], adj_inputs=[ct_x, None], adj_outputs=[ct_y], adjoint=True
        )


def test_operators_are_checked() -> None:
    operator = torch_op(GATHER)
    with pytest.raises(kc.KernelIndexError, match="index 9 is outside of axis 0 of 'x'"):
        operator(torch.ones(5), torch.tensor([9, 0, 0, 0, 0], dtype=torch.int32))
    function = jax_kernel(GATHER)
    at = np.array([[0, 1], [9, 0]], np.int32)
    with pytest.raises(JaxRuntimeError, match="index 9 is outside of axis"):
        np.asarray(jax.vmap(function)(np.ones((2, 2), F), at)[0])


def test_reads_of_which_nothing_is_needed_are_checked() -> None:
    @kc.kernel
    def unused(x: kc.array(dtype=float), y: kc.array(dtype=float)):
        i = kc.tid()
        _ = x[i + 2]
        y[i] = 1.0

    x = np.zeros(5, F)
    check(unused, 5, [x, np.zeros(5, F)], "index 5 is outside of axis 0 of 'x', whose extent is 5")
    y = np.zeros(3, F)
    kc.launch(unused, 3, [x, y])
    np.testing.assert_array_equal(y, np.ones(3, F))


def test_release_mode_has_no_checks() -> None:
    checked = kc.Kernel(gather.pyfunc).overload({"at": kc.array(dtype=kc.int32)}).inspect("ir")
    kc.config.mode = "release"
    plain = kc.Kernel(gather.pyfunc).overload({"at": kc.array(dtype=kc.int32)}).inspect("ir")
    assert "outside of axis" in checked
    assert "outside of axis" not in plain


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(kc.KernelArgumentError, match="'debug' or 'python', found 'fast'"):
        kc.config.mode = "fast"
    assert kc.config.mode == "debug"


@pytest.mark.parametrize("mode", ["debug", "release"])
def test_the_environment_sets_the_mode(mode: str) -> None:
    code = "import kernelcore as kc; print(kc.config.mode)"
    environment = {**os.environ, "KC_MODE": mode}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == mode
