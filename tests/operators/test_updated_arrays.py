"""Arrays that operators update in place: what they may share, and what they may not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import kernelcore as kc
from kernelcore.runtime.array.shared_elements import (
    ElementPlaces,
    repeats_elements,
    share_elements,
)


@kc.op(mutates=["s", "t"])
@kc.kernel
def counted(x: kc.array[kc.float32], s: kc.array[kc.float32], t: kc.array[kc.float32]):
    i = kc.tid()
    s[i] = s[i] + x[i]
    t[i] = t[i] * 10.0


@kc.op(mutates="s")
@kc.kernel
def with_reversed(x: kc.array[kc.float32], s: kc.array[kc.float32]):
    i = kc.tid()
    s[i] = s[i] + x[x.shape[0] - 1 - i]


@kc.op(mutates=["s", "t"])
@kc.kernel
def of_any_rank(s: kc.arraynd[kc.float32], t: kc.arraynd[kc.float32]):
    i = kc.tid()
    s[i] += 1.0
    t[i] += 1.0


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda a: a,
    "torch": torch.from_numpy,
    "kernelcore": lambda a: kc.array(a, copy=False),
}


@pytest.mark.parametrize("form", FORMS)
def test_arrays_that_share_elements_are_refused_before_anything_is_written(form: str):
    of, whole = FORMS[form], ones(6)
    x, s = of(ones(4)), of(whole[:4])
    for t in (s, of(whole[2:])):
        with pytest.raises(kc.KernelArgumentError, match=r"'t': .*shares elements with 's', which"):
            counted(x, s, t)
    repeated = of(np.lib.stride_tricks.as_strided(whole, (4,), (0,)))
    with pytest.raises(kc.KernelArgumentError, match=r"'t': .*several elements share memory"):
        counted(x, of(ones(4)), repeated)
    np.testing.assert_array_equal(whole, ones(6))


@pytest.mark.parametrize("form", FORMS)
def test_arrays_that_interleave_are_updated(form: str):
    of, whole = FORMS[form], ones(8)
    counted(of(ones(4)), of(whole[::2]), of(whole[1::2]))
    np.testing.assert_array_equal(whole, [2, 10] * 4)


@pytest.mark.parametrize("form", FORMS)
def test_values_before_the_call_are_read(form: str):
    s = np.array([1, 2, 3, 4], np.float32)
    with_reversed(*[FORMS[form](s)] * 2)
    np.testing.assert_array_equal(s, [5, 5, 5, 5])


@pytest.mark.parametrize("form", ["numpy", "kernelcore"])
def test_arrays_of_any_rank_are_checked_as_calls_give_them(form: str):
    of, whole = FORMS[form], ones(4, 6)
    of_any_rank(of(whole[:, ::2]), of(whole[:, 1::2]))
    np.testing.assert_array_equal(whole, 2 * ones(4, 6))
    with pytest.raises(kc.KernelArgumentError, match=r"'t': .*shares elements with 's'"):
        of_any_rank(of(whole[:, :3]), of(whole[:, 2:5]))
    with pytest.raises(kc.KernelArgumentError, match=r"'s': .*several elements share memory"):
        of_any_rank(of(np.lib.stride_tricks.as_strided(whole, (2, 3), (4, 4))), of(ones(2, 3)))
    np.testing.assert_array_equal(whole, 2 * ones(4, 6))


def test_nothing_is_updated_where_one_array_is_read_only():
    s, t = ones(4), ones(4)
    t.flags.writeable = False
    with pytest.raises(kc.KernelArgumentError, match=r"'t': .*a read-only one"):
        counted(ones(4), s, t)
    np.testing.assert_array_equal(s, ones(4))


def test_gradients_of_what_an_updated_array_held_before():
    x = kc.array([1.0, 2.0, 3.0], dtype=kc.float32, requires_grad=True)
    s = kc.array([1.0, 1.0, 1.0], dtype=kc.float32, requires_grad=True)
    with kc.Tape() as tape:
        y = x * x
        with_reversed(y, y)
        z = s * y
    tape.backward(grads={z: kc.array([1.0, 10.0, 100.0], dtype=kc.float32)})
    expected = [2.0 * 101.0, 4.0 * 20.0, 6.0 * 101.0]
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def _bytes(places: ElementPlaces) -> list[int]:
    assert places.address is not None
    return [
        places.address + sum(k * s for k, s in zip(index, places.strides, strict=True)) + part
        for index in itertools.product(*map(range, places.shape))
        for part in range(places.size)
    ]


def _places(rng: random.Random) -> ElementPlaces:
    ndim, size = rng.randint(0, 3), rng.choice([1, 4, 8])
    unit = rng.choice([1, size])
    return ElementPlaces(
        5000 + rng.randint(-20, 20),
        tuple(rng.randint(0, 4) for _ in range(ndim)),
        tuple(unit * rng.randint(-12, 12) for _ in range(ndim)),
        size,
    )


@pytest.mark.parametrize("seed", range(4))
def test_shared_elements_are_found_exactly(seed: int):
    rng = random.Random(seed)
    for _ in range(1000):
        one, other = _places(rng), _places(rng)
        first, second = _bytes(one), _bytes(other)
        assert repeats_elements(one) == (len(set(first)) < len(first)), one
        assert share_elements(one, other) == (not set(first).isdisjoint(second)), (one, other)


def test_a_search_that_takes_too_long_counts_as_shared():
    # Sums of six of these strides, whose search for one that is 0 is long.
    strides = tuple(4 * s for s in (10**6 + 3, 10**6 + 33, 10**6 + 37, 10**6 + 39, 10**6 + 81))
    one = ElementPlaces(4, (400,) * 5, strides, 4)
    assert share_elements(one, one._replace(address=4 + 4 * (2 * 10**8 + 17)))


def test_generic_kernels_that_only_update_arrays_need_no_outputs() -> None:
    @kc.kernel
    def twice(x: kc.array[Any]):
        i = kc.tid()
        x[i] = x[i] + x[i]

    x = torch.ones(3)
    assert kc.op(twice, in_out="x")(x).tolist() == [2.0, 2.0, 2.0]
    assert x.tolist() == [1.0, 1.0, 1.0]
    kc.op(twice, mutates="x")(x)
    assert x.tolist() == [2.0, 2.0, 2.0]

    @kc.kernel
    def moved(x: kc.array[Any], y: kc.array[Any]):
        i = kc.tid()
        y[i] = x[i]
        x[i] = x[i] + x[i]

    with pytest.raises(kc.KernelArgumentError, match="'y', which is neither an output nor in-out"):
        kc.op(moved, in_out="x")(x, x)
