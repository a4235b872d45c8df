"""Kernels on composites and on every scalar type that once were compiled wrongly, or refused."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: basic, reportInvalidTypeForm=false, reportCallIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportIndexIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.verify import verify
from tests.helpers.language import agree

RNG = np.random.default_rng(6)
A1 = kc.array(dtype=kc.float64)


@kc.kernel
def subtract_literal(a: kc.array(dtype=kc.uint32), b: kc.array(dtype=kc.vec2ub)):
    i = kc.tid()
    a[i] -= 7
    b[i].y -= 3
    kc.atomic_sub(a, i, 1)


def test_a_literal_is_subtracted_from_an_unsigned_element() -> None:
    a, b = np.array([3, 10], np.uint32), np.array([[1, 1], [5, 5]], np.uint8)
    kc.launch(subtract_literal, 2, [a, b])
    np.testing.assert_array_equal(a, np.array([2**32 - 5, 2], np.uint32))
    np.testing.assert_array_equal(b, np.array([[1, 254], [5, 2]], np.uint8))


@kc.kernel
def name_of_a_component(choice: kc.int32, a: kc.array(dtype=kc.uint8)):
    i = kc.tid()
    v = kc.vec2ub(2, a[i]) if choice else kc.vec2ub(a[i], 2)
    first = v.x
    a[i] = v.x + first


@kc.kernel
def name_of_an_extent(n: kc.int32, a: kc.array(dtype=kc.int32)):
    i = kc.tid()
    part = a[1:n]
    size = part.shape[0]
    a[i] = size * 10 + part.shape[0]


@pytest.mark.parametrize("choice", [0, 1])
def test_a_component_keeps_its_value_when_a_name_is_given_to_it(choice: int) -> None:
    verify(name_of_a_component.func)
    a = np.array([5, 9], np.uint8)
    kc.launch(name_of_a_component, 2, [choice, a])
    np.testing.assert_array_equal(a, [4, 4] if choice else [10, 18])


def test_the_extent_of_a_view_keeps_its_value_when_a_name_is_given_to_it() -> None:
    verify(name_of_an_extent.func)
    a = np.zeros(4, np.int32)
    kc.launch(name_of_an_extent, 4, [3, a])
    np.testing.assert_array_equal(a, [22] * 4)


NOTHING = kc.types.vector(length=0, dtype=kc.float64)


@kc.struct
class Sample:
    value: kc.float64
    coordinates: NOTHING


@kc.func
def added(v: kc.types.vector(length=Any, dtype=kc.float64)) -> kc.float64:
    total = kc.float64(0.0)
    for k in range(len(v)):
        total += v[k]
    return total


def test_vectors_may_have_no_components() -> None:
    @kc.kernel
    def kernel(v: NOTHING, s: Sample, x: A1, out: A1):
        i = kc.tid()
        w = -v * x[i] + s.coordinates
        out[i] = added(w) + added(kc.vec3d(x[i])) + s.value * kc.float64(1 + len(NOTHING(w)))
        if w == v:
            out[i] += 1.0

    v, x = NOTHING(), RNG.normal(size=3)
    assert (len(v), list(v + v), np.asarray(v).shape) == (0, [], (0,))
    found = agree(kernel, 3, [v, Sample(value=2.0), x, np.zeros(3)])[3]
    np.testing.assert_allclose(found, 3 * x + 3, 1e-14)
    kc.gradcheck(kernel, 3, [v, Sample(value=2.0), x], [np.zeros(3)])
    with pytest.raises(kc.KernelTypeError, match="an extent of at least 1, found 0"):
        kc.types.matrix(shape=(0, 2), dtype=float)


def test_kernels_make_arrays_of_vectors() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.vec2d), out: kc.array(dtype=kc.vec2d)):
        i = kc.tid()
        stack = kc.zeros(3, dtype=kc.vec2d)
        stack[i % 3] = x[i]
        stack[1] += 2.0 * x[0]
        out[i] = stack[1]

    x = RNG.normal(size=(3, 2))
    found = agree(kernel, 3, [x, np.zeros((3, 2))])[1]
    np.testing.assert_array_equal(found, [2 * x[0], x[1] + 2 * x[0], 2 * x[0]])
    kc.gradcheck(kernel, 3, [x], [np.zeros((3, 2))])


def test_parts_of_a_vector_are_vectors() -> None:
    @kc.kernel
    def kernel(out: kc.array(dtype=kc.spatial_vectord)):
        v = kc.vec3d(1.0, 2.0, 3.0)
        out[0] = kc.spatial_vectord(v, 2.0 * v)

    (found,) = agree(kernel, 1, [np.zeros((1, 6))])
    v = kc.vec3d(1.0, 2.0, 3.0)
    assert kc.spatial_vectord(v, 2.0 * v) == found[0]
    assert kc.vec4(kc.vec2(1.0, 2.0), 3.0, 4.0) == kc.vec4(1.0, 2.0, 3.0, 4.0)
    with pytest.raises(kc.KernelTypeError, match="expected 0, 1 or 6 arguments, found 5"):
        kc.spatial_vector(kc.vec3(1.0, 2.0, 3.0), kc.vec2(1.0, 2.0))


@kc.kernel
def rows(m: kc.mat22d, out: A1):
    out[0] = m[1, 0]


def test_numbers_in_a_row_are_a_matrix() -> None:
    for given in ([1.0, 2.0, 3.0, 4.0], np.arange(1.0, 5.0), [[1.0, 2.0], [3.0, 4.0]]):
        out = np.zeros(1)
        kc.launch(rows, 1, [given, out])
        assert out == [3.0]
    with pytest.raises(kc.KernelArgumentError, match="argument 'm': expected mat22d"):
        kc.launch(rows, 1, [[1.0, 2.0, 3.0], np.zeros(1)])
