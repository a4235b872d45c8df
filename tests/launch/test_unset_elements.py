"""In Python mode, elements of ``kc.empty`` that nothing has written are not read."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.runtime.array import unset_elements

Floats = kc.array(dtype=float)


@pytest.fixture(autouse=True)
def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kc.config, "mode", "python")


@kc.struct
class Body:
    mass: float
    place: kc.vec3


@kc.kernel
def write_first_two(y: Floats):
    i = kc.tid()
    if i < 2:
        y[i] = 1.0


@kc.kernel
def double(y: Floats, z: Floats):
    i = kc.tid()
    z[i] = 2.0 * y[i]


@kc.kernel
def count(y: kc.array(dtype=int)):
    kc.atomic_add(y, kc.tid(), 1)


@kc.kernel
def write_parts(v: kc.array(dtype=kc.vec3), m: kc.array(dtype=kc.mat22), s: kc.array(dtype=Body)):
    i = kc.tid()
    v[i][0] = 1.0
    v[i].y = 2.0
    m[i][0, 1] = 3.0
    m[i][1] = kc.vec2(4.0, 5.0)
    s[i].mass = 6.0
    s[i].place.x = v[i].x + 1.0


def test_a_read_of_an_unset_element_has_line_and_thread() -> None:
    y, z = kc.empty(4), kc.empty(4)
    kc.launch(write_first_two, 4, [], [y])
    kc.launch(double, 2, [y], [z])
    with pytest.raises(kc.KernelNameError, match=r"y\[2\] is read .* \(thread 2\)") as caught:
        kc.launch(double, 4, [y], [z])
    assert "z[i] = 2.0 * y[i]" in str(caught.value)
    assert "kc.zeros" in str(caught.value)


def test_additions_read_what_they_add_to() -> None:
    with pytest.raises(kc.KernelNameError, match=r"y\[0\] is read before it has a value"):
        kc.launch(count, 2, [], [kc.empty(2, dtype=int)])
    y = kc.empty(2, dtype=int)
    y.zero_()
    kc.launch(count, 2, [], [y])
    assert y.list() == [1, 1]


def test_parts_of_unset_elements_are_written() -> None:
    made: list[Any] = [kc.empty(2, dtype=t) for t in (kc.vec3, kc.mat22, Body)]
    kc.launch(write_parts, 2, [], made)
    assert made[0].numpy()[:, :2].tolist() == [[1.0, 2.0]] * 2
    assert made[2].numpy()["mass"].tolist() == [6.0] * 2
    assert made[2].numpy()["place"][:, 0].tolist() == [2.0] * 2


@pytest.mark.parametrize("dtype", [kc.float16, kc.int8, kc.uint16, bool])
def test_elements_of_few_bytes_are_zeros(dtype: Any) -> None:
    assert not kc.empty(300, dtype=dtype).numpy().any()


def test_writes_of_any_library_count() -> None:
    y, z = kc.empty(3), kc.empty(3)
    np.from_dlpack(y)[...] = 5.0
    kc.launch(double, 2, [y[1:3]], [z[0:2]])
    with pytest.raises(kc.KernelNameError, match=r"y\[2\]"):
        kc.launch(double, 3, [z], [y])


def test_recorded_launches_are_checked_before_they_run() -> None:
    y, z = (kc.empty(2, requires_grad=True) for _ in range(2))
    with pytest.raises(kc.KernelNameError, match=r"y\[0\]"), kc.Tape():
        kc.launch(double, 2, [y], [z])


def test_nothing_is_kept_of_arrays_that_are_gone() -> None:
    gc.collect()
    before = list(unset_elements._ranges)
    made = [kc.empty(n) for n in (5, 0, 70)]
    assert len(unset_elements._ranges) == len(before) + 2
    del made
    gc.collect()
    assert unset_elements._ranges == before
