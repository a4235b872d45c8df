"""Array annotations, and arrays that are looked up through indices."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from kernelcore import types
from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.language.composite_types import vec3
from kernelcore.language.types import ArrayOf
from kernelcore.runtime.array.annotations import (
    array2d,
    array4d,
    arraynd,
    indexedarray,
    indexedarray2d,
)
from kernelcore.runtime.array.array import array
from kernelcore.runtime.array.indexed_array import IndexedArray


def test_array_annotations() -> None:
    assert array(dtype=float) == array[float] == ArrayOf(types.float32, 1)
    assert array(vec3) == ArrayOf(vec3.kernel_type, 1)
    assert array2d[vec3] == array(dtype=vec3, ndim=2) == ArrayOf(vec3.kernel_type, 2)
    assert array(dtype=Any) == ArrayOf(None, 1)
    assert array(dtype=types.AnyFloat).element == types.AnyFloat
    assert array4d[int].ndim == 4
    assert (
        arraynd[vec3] == array(dtype=vec3, ndim=...) == ArrayOf(vec3.kernel_type, 1, is_flat=True)
    )
    assert indexedarray(dtype=vec3, ndim=3) == ArrayOf(vec3.kernel_type, 3, True)
    assert indexedarray2d[Any] == ArrayOf(None, 2, True)
    assert indexedarray(float) == ArrayOf(types.float32, 1, True)
    wanted = array(dtype=vec3, ndim=2)
    assert (wanted.dtype, wanted.ndim, wanted.shape) == (vec3, 2, (0, 0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: array(dtype=str), "expected a scalar, vector or struct"),
        (lambda: array(dtype=array[float]), "expected a scalar, vector or struct"),
        (lambda: array(dtype=float, ndim=5), "expected 1 to 4 dimensions, found 5"),
        (
            lambda: array(dtype=float, ndim=cast("Any", "2")),
            "expected 1 to 4 dimensions, found '2'",
        ),
        (lambda: array2d(dtype=float, ndim=1), "expected 2 to 2 dimensions, found 1"),
        (lambda: indexedarray(np.zeros(3), dtype=float), "found both"),
        (lambda: indexedarray(float, [None]), "found both"),
    ],
)
def test_other_annotations_are_refused(make: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        make()


def test_indexed_arrays_hold_checked_indices() -> None:
    data = np.zeros((4, 3))
    rows = np.array([3, 0], np.int32)
    found = indexedarray(data, [rows, None])
    assert isinstance(found, IndexedArray)
    assert found.data is data
    rows[0] = 100
    assert [t.tolist() for t in found.tables(2)] == [[3, 0], [0, 1, 2]]
    assert [t.dtype for t in found.tables(2)] == [np.int32] * 2
    assert [t.tolist() for t in indexedarray(data, [[1, 2]]).tables(1)] == [[1, 2]]
    assert indexedarray(data, [[]]).tables(2)[0].tolist() == []


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([None, [0, 3]], "index array 1: index 3 at position 1 is outside the extent 3"),
        ([[0, -1]], "index array 0: index -1 at position 1 is outside the extent 4"),
        ([np.zeros(2)], "index array 0: expected int32 of one dimension"),
        ([np.zeros(2, np.int64)], "expected int32"),
        ([np.zeros((1, 1), np.int32)], "expected int32 of one dimension"),
        ([[[1], [2, 3]]], "expected int32 of one dimension"),
        (5, "expected a list of index arrays, found 5"),
        ([None, None, None], "expected at most 2 index arrays"),
    ],
)
def test_indices_that_do_not_fit_are_refused(indices: Any, message: str) -> None:
    with pytest.raises(KernelArgumentError, match=message):
        indexedarray(np.zeros((4, 3)), indices)
