"""Arrays of structs whose fields are arrays: in kernels, on the host, and how long they live."""

# Annotations of kernels are read by kernelcore.
# pyright: reportInvalidTypeForm=false, reportCallIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import (
    KernelArgumentError,
    KernelError,
    KernelGradError,
    KernelIndexError,
    KernelTypeError,
)


@kc.struct
class Material:
    table: kc.array(dtype=kc.float64)
    kind: int


@kc.struct
class Body:
    verts: kc.array(dtype=kc.vec3)
    grid: kc.array(dtype=float, ndim=2)
    mass: float
    material: Material


@kc.struct
class Scene:
    bodies: kc.array(dtype=Body)
    scale: float


SIZES = (2, 3, 5)


def body(n: int) -> Any:
    found = Body(mass=float(n))
    found.verts = kc.array(np.arange(3.0 * n).reshape(n, 3), dtype=kc.vec3)
    found.grid = kc.array(np.ones((2, n)), dtype=float)
    found.material = Material(table=np.arange(n) / 4, kind=n)
    return found


def bodies() -> list[Any]:
    return [body(n) for n in SIZES]


@kc.func
def moment(b: Body) -> float:
    total = 0.0
    for j in range(b.verts.shape[0]):
        total += b.verts[j][0]
    return total * b.mass


@kc.kernel
def read(given: kc.array(dtype=Body), out: kc.array(dtype=float)):
    i = kc.tid()
    b = given[i]
    last = len(b.material.table) - 1
    out[i] = moment(b) + given[i].grid[1, last] + float(given[i].material.table[last])
    out[i] += 100.0 * float(b.material.kind)


@kc.kernel
def write(given: kc.array(dtype=Body)):
    i = kc.tid()
    given[i].verts[1] = kc.vec3(1.0, 2.0, float(i))
    given[i].verts[0][2] += 5.0
    given[i].mass *= 2.0
    given[i].material.kind = 7
    kc.atomic_add(given[i].grid, 0, 1, 3.0)
    table = given[i].material.table
    table[0] = kc.float64(9.0)


@pytest.fixture(params=["release", "debug"])
def mode(request: pytest.FixtureRequest) -> Any:
    kc.config.mode = request.param
    yield request.param
    kc.config.mode = "release"


def test_kernels_read_the_arrays_of_elements(mode: str) -> None:
    given, out = kc.array(bodies(), dtype=Body), kc.zeros(3, dtype=float)
    kc.launch(read, 3, [given, out])
    expected = [3 * n * (n - 1) / 2 * n + 1 + (n - 1) / 4 + 100 * n for n in SIZES]
    np.testing.assert_allclose(out.numpy(), expected)


def test_kernels_write_to_the_arrays_of_elements(mode: str) -> None:
    held = bodies()
    given = kc.array(held, dtype=Body)
    kc.launch(write, 3, [given])
    for i, (one, n) in enumerate(zip(held, SIZES, strict=True)):
        verts = np.arange(3.0 * n).reshape(n, 3)
        verts[1] = 1, 2, i
        verts[0, 2] += 5
        np.testing.assert_array_equal(one.verts.numpy(), verts)
        grid = np.ones((2, n))
        grid[0, 1] = 4
        np.testing.assert_array_equal(one.grid.numpy(), grid)
        assert one.material.table[0] == 9
        # The other fields are those of the array, which holds copies.
        assert (one.mass, one.material.kind) == (n, n)
        assert (given[i].mass, given[i].material.kind) == (2 * n, 7)


def test_structs_hold_arrays_of_structs_that_hold_arrays() -> None:
    @kc.kernel
    def kernel(scenes: kc.array(dtype=Scene), out: kc.array(dtype=float)):
        i, k = kc.tid()
        b = scenes[i].bodies[k]
        out[k] = moment(b) * scenes[i].scale + b.verts[0][1]

    scenes = kc.array([Scene(bodies=kc.array(bodies(), dtype=Body), scale=2.0)], dtype=Scene)
    out = kc.zeros(3, dtype=float)
    kc.launch(kernel, (1, 3), [scenes, out])
    np.testing.assert_allclose(out.numpy(), [3 * n * (n - 1) * n + 1 for n in SIZES])


def test_variables_take_other_elements() -> None:
    @kc.func
    def pick(given: kc.array(dtype=Body), k: int) -> Body:
        return given[k]

    @kc.kernel
    def kernel(given: kc.array(dtype=Body), out: kc.array(dtype=float)):
        i = kc.tid()
        b = given[2]
        if i > 0:
            b = pick(given, i - 1)
        other = given[1] if i > 1 else given[0]
        largest = given[0]
        for k in range(given.shape[0]):
            if len(given[k].verts) > len(largest.verts):
                largest = given[k]
        out[i] = 100.0 * float(len(b.verts)) + 10.0 * other.verts[1][1] + largest.verts[4][0]

    given, out = kc.array(bodies(), dtype=Body), kc.zeros(3, dtype=float)
    given[0].verts.assign(given[0].verts.numpy() + 1.0)
    kc.launch(kernel, 3, [given, out])
    assert out.list() == [500 + 50 + 12, 200 + 50 + 12, 300 + 40 + 12]


def test_a_field_without_an_array_is_empty(mode: str) -> None:
    @kc.kernel
    def kernel(given: kc.array(dtype=Body), out: kc.array(dtype=int)):
        i = kc.tid()
        out[i] = len(given[i].verts)
        if given[i].verts:
            out[i] += 10

    out = kc.zeros(2, dtype=int)
    kc.launch(kernel, 2, [kc.zeros(2, dtype=Body), out])
    assert out.list() == [0, 0]
    kc.launch(kernel, 2, [kc.array([Body(), body(3)], dtype=Body), out])
    assert out.list() == [0, 13]


def test_elements_on_the_host_have_the_arrays_that_were_given() -> None:
    held = bodies()
    given = kc.array(held, dtype=Body)
    assert [one == other for one, other in zip(given.list(), held, strict=True)] == [True] * 3
    assert given[1].verts is held[1].verts
    assert given[1].material.table is held[1].material.table
    assert kc.zeros(1, dtype=Body)[0].verts is None
    record = given.numpy()[2]["verts"]
    assert (record["address"], record["shape"].tolist()) == (held[2].verts.ptr, [5])


def test_an_array_of_structs_keeps_the_arrays_alive() -> None:
    held = bodies()
    seen = [weakref.ref(one.verts) for one in held]
    given = kc.array(held, dtype=Body)
    del held
    gc.collect()
    assert all(ref() is not None for ref in seen)
    given[0] = body(4)
    part, copied = given[1:], given.clone()
    del given
    gc.collect()
    assert all(ref() is not None for ref in seen)
    del part
    gc.collect()
    assert seen[1]() is not None
    out = kc.zeros(3, dtype=float)
    kc.launch(read, 3, [copied, out])
    assert out.numpy()[0] == 3 * 6 * 4 + 1 + 0.75 + 400
    copied.assign([body(2)] * 3)
    gc.collect()
    assert [ref() for ref in seen] == [None] * 3


def test_fields_have_any_name() -> None:
    @kc.struct
    class Holder:
        kept: kc.array(dtype=float)

    given = kc.array([Holder(kept=kc.ones(3, dtype=float))], dtype=Holder)
    gc.collect()
    assert given[0].kept.list() == [1, 1, 1]


def test_a_kernel_that_reads_other_fields_is_differentiable() -> None:
    @kc.kernel
    def kernel(given: kc.array(dtype=Body), x: kc.array(dtype=float), out: kc.array(dtype=float)):
        i = kc.tid()
        out[i] = given[i].mass * x[i] * x[i]

    x = kc.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    out = kc.zeros(3, dtype=float, requires_grad=True)
    with kc.Tape() as tape:
        kc.launch(kernel, 3, [kc.array(bodies(), dtype=Body), x, out])
    tape.backward(grads={out: kc.ones(3, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [4, 12, 30])


def test_derivatives_through_the_arrays_are_refused() -> None:
    x = kc.ones(3, dtype=float, requires_grad=True)
    with kc.Tape() as tape:
        kc.launch(read, 3, [kc.array(bodies(), dtype=Body), x])
    with pytest.raises(KernelGradError, match="nothing says where the gradients"):
        tape.backward(grads={x: kc.ones(3, dtype=float)})


def test_debug_mode_checks_indices() -> None:
    @kc.kernel
    def kernel(given: kc.array(dtype=Body), out: kc.array(dtype=float)):
        i = kc.tid()
        out[i] = given[i].verts[3][0]

    kc.config.mode = "debug"
    try:
        with pytest.raises(KernelIndexError, match="index 3 is outside of axis 0"):
            kc.launch(kernel, 3, [kc.array(bodies(), dtype=Body), kc.zeros(3, dtype=float)])
    finally:
        kc.config.mode = "release"


def refused(of: Any, text: str) -> None:
    with pytest.raises(KernelError, match=text) as caught:
        of()
    assert caught.value.remedy


def test_what_does_not_fit_is_refused() -> None:
    one = body(3)
    one.grid = kc.array(np.ones((3, 2)), dtype=float).transpose()
    refused(lambda: kc.array([one], dtype=Body), "field 'grid': .*lie in order, found strides")
    one.grid = kc.ones(3, dtype=float)
    refused(lambda: kc.array([one], dtype=Body), "field 'grid': expected array.float32, 2.")
    one.grid = np.ones((2, 2))
    refused(lambda: kc.array([one], dtype=Body), "field 'grid'")
    one.grid = np.ones((2, 2), np.float32)
    one.grid.flags.writeable = False
    refused(lambda: kc.array([one], dtype=Body), "field 'grid': .*read-only")
    given = kc.array(bodies(), dtype=Body)
    for other in (pickle.dumps, copy.deepcopy):
        refused(lambda of=other: of(given), "can be pickled")
    refused(lambda: kc.array(given, copy=False), "expected memory of Body to share")
    raw = given.numpy().copy()
    refused(lambda: kc.array(raw, dtype=Body)[0], "was not given to this array of structs")

    @kc.kernel
    def whole(x: kc.array(dtype=Body)):
        x[0] = x[1]

    @kc.kernel
    def field(x: kc.array(dtype=Body), v: kc.array(dtype=kc.vec3)):
        x[0].verts = v

    refused(lambda: whole.func, "cannot write a whole Body, which holds arrays")
    refused(lambda: field.func, "is assigned as a whole")


def test_python_mode_refuses_them() -> None:
    kc.config.mode = "python"
    try:
        with pytest.raises(KernelArgumentError, match="Python mode has no arrays of Body"):
            kc.launch(read, 3, [kc.array(bodies(), dtype=Body), kc.zeros(3, dtype=float)])
    finally:
        kc.config.mode = "release"


def test_indexed_arrays_do_not_lie_in_elements() -> None:
    @kc.struct
    class Looked:
        values: kc.indexedarray(dtype=float)

    for make in (lambda: kc.zeros(3, dtype=Looked), lambda: kc.array(dtype=Looked)):
        with pytest.raises(KernelTypeError, match="Looked"):
            make()
