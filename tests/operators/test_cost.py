"""What calls cost, against counts by hand; arrays of every framework have the same."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import kernelcore as kc


@kc.op
@kc.kernel
def double(x: kc.array1d[float], y: kc.array1d[float]):
    i = kc.tid()
    y[i] = 2.0 * x[i]


@kc.op(output_dims=1, launch_dims="x.shape[0]")
@kc.kernel
def squares(x: kc.array2d[float], n: int, y: kc.array1d[float]):
    i = kc.tid()
    total = 0.0
    for k in range(n):
        total += x[i, k] * x[i, k]
    kc.atomic_add(y, 0, total)


@kc.op
@kc.kernel
def lengths(x: kc.array(dtype=kc.vec3), y: kc.array1d[float]):
    i = kc.tid()
    v = x[i]
    y[i] = kc.dot(v, v)


@kc.op
@kc.kernel
def halves(x: kc.array(dtype=float, ndim=...), y: kc.array(dtype=float, ndim=...)):
    i = kc.tid()
    y[i] = 0.5 * x[i]


@kc.op
def doublings(x: kc.array1d[float], n: int, y: kc.array1d[float]):
    made = kc.zeros(x.shape[0], dtype=float)
    for _ in range(n):
        kc.launch(double.kernel, x.shape[0], [x], [made])
        kc.launch(double.kernel, x.shape[0], [made], [y])


def test_arrays_of_every_framework_cost_the_same() -> None:
    for x in (np.ones(5, np.float32), torch.ones(5), jnp.ones(5), kc.ones(5, dtype=float)):
        found = double.cost(x)
        assert (found.launches, found.flops) == (1, 5)
        assert (found.loaded_bytes, found.stored_bytes, found.is_known) == (20, 20, True)


def test_iterations_count_where_arguments_tell_them() -> None:
    x = torch.ones(3, 8)
    found = squares.cost(x, 8)
    assert (found.flops, found.loaded_bytes, found.is_known) == (3 * 8 * 2, 3 * 8 * 8, True)
    found = squares.cost(x, torch.tensor(8, dtype=torch.int32))
    assert (found.flops, found.loaded_bytes, found.is_known) == (3 * 2, 3 * 8, False)


def test_components_and_arrays_of_any_rank_count() -> None:
    for x in (torch.ones(4, 3), kc.zeros(4, dtype=kc.vec3)):
        found = lengths.cost(x)
        assert (found.flops, found.loaded_bytes, found.stored_bytes) == (4 * 5, 4 * 12, 4 * 4)
    assert halves.cost(torch.ones(2, 3, 4)).flops == 24


def test_functions_count_their_launches_and_run_none() -> None:
    found = doublings.cost(np.ones(6, np.float32), 2)
    assert (found.launches, found.flops, found.loaded_bytes) == (4, 24, 96)


def test_empty_calls_cost_nothing_but_the_launch() -> None:
    found = double.cost(np.ones(0, np.float32))
    assert (found.launches, found.flops, found.stored_bytes) == (1, 0, 0)


def test_calls_that_would_be_refused_are_refused() -> None:
    with pytest.raises(kc.KernelArgumentError, match="argument 'x'"):
        lengths.cost(torch.ones(4, 2))
    with pytest.raises(kc.KernelArgumentError, match="missing"):
        squares.cost(torch.ones(4, 2))
