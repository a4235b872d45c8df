"""What ``kc.array`` makes beside copies: subclasses, memory at addresses, results of operators."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false

from __future__ import annotations

import copy
import gc
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc


@kc.kernel
def double(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 2.0 * x[i]


def test_arrays_of_integers_have_no_gradient() -> None:
    x = kc.zeros(3, dtype=int, requires_grad=True)
    x.requires_grad = True
    assert not x.requires_grad
    assert x.grad is None


def test_the_class_of_arrays() -> None:
    class Samples(kc.array):
        """Samples of one rate, in hertz."""

        def __init__(self, data: Any, rate: float) -> None:
            super().__init__(data, dtype=float)
            self.rate = rate

    x = Samples([1.0, 2.0], rate=50.0)
    assert isinstance(x, kc.array)
    assert isinstance(kc.zeros(3), kc.array)
    assert not isinstance(np.zeros(3), kc.array)
    assert kc.array is kc.Array
    y = kc.zeros(2)
    kc.launch(double, 2, [x], [y])
    assert y.numpy().tolist() == [2.0, 4.0]
    same = copy.copy(x)
    assert (type(same), same.rate, same.numpy().tolist()) == (Samples, 50.0, [1.0, 2.0])
    plain = kc.ones(2)
    plain.unit = "m"
    assert pickle.loads(pickle.dumps(plain)).unit == "m"


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}


@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators_are_those_of_numpy(symbol: str) -> None:
    apply = OPERATORS[symbol]
    a, b = np.array([[1.5, 2.0, 7.25]] * 2), np.array([2.0, 0.5, 3.0])
    left, right = kc.array(a), kc.array(b)
    for mine, numbers in ((left, a), (a, a), (3.0, 3.0), (3, 3)):
        found = apply(mine, right)
        assert isinstance(found, kc.Array)
        assert found.dtype == kc.float64
        np.testing.assert_allclose(found.numpy(), apply(numbers, b), rtol=1e-15)
    np.testing.assert_allclose(apply(left, 2.5).numpy(), apply(a, 2.5), rtol=1e-15)
    same = left
    same = apply(same, 2.0)
    in_place = {"+": operator.iadd, "-": operator.isub, "*": operator.imul}.get(symbol)
    if in_place is not None:
        assert in_place(left, 2.0) is left
        np.testing.assert_allclose(left.numpy(), same.numpy(), rtol=0)


def test_operators_of_vectors_and_integers() -> None:
    v = kc.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=kc.vec3)
    assert (2.0 * v + kc.vec3(1.0)).numpy().tolist() == [[3.0, 5.0, 7.0], [9.0, 11.0, 13.0]]
    assert (-v).dtype is kc.vec3
    i = kc.array([7, -7], dtype=int)
    assert (i // 2).numpy().tolist() == [3, -4]
    assert (i % 3).numpy().tolist() == [1, 2]
    with pytest.raises(TypeError):
        operator.add(i, "one")


def test_a_tape_records_operators() -> None:
    x = kc.array([1.0, 2.0], dtype=kc.float64, requires_grad=True)
    with kc.Tape() as tape:
        y = (x * x + 3.0 * x) / 2.0 - x**3.0
    tape.backward(grads={y: kc.ones(2, dtype=kc.float64)})
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [2.5 - 3.0, 3.5 - 12.0], rtol=1e-14)


def test_memory_at_an_address() -> None:
    numbers = np.arange(12.0)
    deleted: list[tuple[int, int]] = []

    def delete(ptr: int, size: int) -> None:
        deleted.append((ptr, size))

    at = numbers.ctypes.data
    x = kc.array(ptr=at, dtype=kc.vec2d, shape=3, strides=(32,), capacity=96, deleter=delete)
    assert x.numpy().tolist() == [[0.0, 1.0], [4.0, 5.0], [8.0, 9.0]]
    part = x[1:]
    part.fill_(7.0)
    assert numbers[[4, 5, 8, 9]].tolist() == [7.0] * 4
    del x
    gc.collect()
    assert deleted == []
    del part
    gc.collect()
    assert deleted == [(at, 96)]


def test_numbers_in_a_row_are_components() -> None:
    assert kc.array([1, 2, 3, 4, 5, 6], dtype=kc.vec3).numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert kc.array(np.zeros((2, 18)), dtype=kc.mat33).shape == (2, 2)
    assert kc.array(np.zeros(12), dtype=kc.vec3, shape=(2, 2)).shape == (2, 2)
    assert kc.array(np.zeros(9, np.float32), dtype=kc.mat33, copy=False).shape == (1,)


def test_views_between_composites_and_their_components() -> None:
    v = kc.ones((2, 4), dtype=kc.vec3, requires_grad=True)
    scalars = v.view(float)
    assert scalars.shape == (2, 4, 3)
    assert scalars.requires_grad
    scalars[:, :, 1].fill_(2.0)
    assert v.numpy()[1, 3].tolist() == [1.0, 2.0, 1.0]
    assert kc.ones((2, 3, 3)).view(kc.mat33).shape == (2,)
    assert kc.ones((4, 3)).view(kc.vec3).dtype is kc.vec3
    for wrong in (kc.ones((3, 2)).transpose(), kc.ones((2, 4)), kc.ones((2, 3), dtype=float)):
        with pytest.raises(kc.KernelArgumentError, match="no view of"):
            wrong.view(kc.vec3d)


def test_indexed_arrays_are_read_and_written_on_the_host() -> None:
    v = kc.array(np.arange(12.0), dtype=kc.vec3)
    some = kc.indexedarray(v, [[1, 3]])
    assert (some.shape, some.ndim, some.size, some.dtype) == ((2,), 1, 2, kc.vec3)
    assert some.numpy().tolist() == [[3.0, 4.0, 5.0], [9.0, 10.0, 11.0]]
    some.fill_(kc.vec3(1.0))
    assert v.numpy()[:, 0].tolist() == [0.0, 1.0, 6.0, 1.0]
    grid = np.ones((3, 4))
    kc.indexedarray(grid, [None, [1, 3]]).zero_()
    assert grid.tolist() == [[1.0, 0.0, 1.0, 0.0]] * 3
    with kc.Tape(), pytest.raises(kc.KernelArgumentError, match="do not record"):
        some.fill_(2.0)


def test_indexed_arrays_are_data() -> None:
    x = kc.array(np.arange(6.0), dtype=kc.float64)
    part = kc.indexedarray(x, [[1, 3]])
    assert isinstance(part, kc.indexedarray)
    assert isinstance(part, kc.indexedarray1d)
    assert not isinstance(part, kc.indexedarray2d)
    assert not isinstance(x, kc.indexedarray)
    assert (part.list(), str(part.device), part.is_contiguous) == ([1.0, 3.0], "cpu", False)
    copied = part.contiguous()
    copied.fill_(9.0)
    assert isinstance(copied, kc.array)
    assert isinstance(copied, kc.array1d)
    assert not isinstance(copied, kc.array2d)
    assert part.to("cpu").numpy().tolist() == part.clone().numpy().tolist() == [1.0, 3.0]
    with kc.Tape(), pytest.raises(kc.KernelArgumentError, match="do not record this copy"):
        part.contiguous()
    assert kc.array(dtype=float, ndim=2).size == 0
