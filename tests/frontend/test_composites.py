"""Kernels on composites and on every scalar type that once were compiled wrongly, or refused."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.verify import verify


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
