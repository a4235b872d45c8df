"""Data arrays: what they hold, views of them, exchange with other libraries, and launches."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.environment import ROOT

Golden = Callable[[str, str], None]


@kc.struct
class Core:
    charge: kc.float64
    spin: int


@kc.struct
class Particle:
    pos: kc.vec3
    mass: float
    core: Core


@kc.kernel
def double(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 2.0 * x[i]


@kc.kernel
def cross_up(x: kc.array(dtype=kc.vec3), y: kc.array2d(dtype=kc.vec3)):
    i, j = kc.tid()
    y[i, j] = kc.cross(x[i], kc.vec3(0.0, 0.0, float(j + 1)))


@kc.kernel
def charge_times_mass(p: kc.array(dtype=Particle), out: kc.array(dtype=kc.float64)):
    i = kc.tid()
    out[i] = p[i].core.charge * kc.float64(p[i].mass)
    p[i].pos = p[i].pos * 2.0


@kc.kernel
def double_any(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    y[i] = x[i] + x[i]


def grad(array: kc.Array) -> kc.Array:
    assert array.grad is not None
    return array.grad


def fields(array: kc.Array) -> Mapping[str, kc.Array]:
    assert array.fields is not None
    return array.fields


def test_the_name_array_annotates_and_makes() -> None:
    assert repr(kc.array(dtype=float, ndim=2)) == "array(float32, 2)"
    assert repr(kc.array(float)) == "array(float32, 1)"
    assert repr(kc.array2d[kc.vec3]) == "array(vec3, 2)"
    made = kc.array([1.0, 2.0], dtype=float)
    assert isinstance(made, kc.Array)
    assert isinstance(kc.array2d([[1.0, 2.0]]), kc.Array)
    assert isinstance(kc.array(shape=(2, 3), dtype=kc.vec3), kc.Array)
    assert isinstance(kc.array([], dtype=int), kc.Array)


MADE: dict[str, tuple[Any, Any, Any, tuple[int, ...]]] = {
    "list of floats": ([1.0, 2.0], None, kc.float64, (2,)),
    "list of ints": ([1, 2], None, kc.int64, (2,)),
    "nested": ([[1, 2, 3], [4, 5, 6]], float, kc.float32, (2, 3)),
    "numpy": (np.ones((2, 3), np.float16), None, kc.float16, (2, 3)),
    "converted": (np.arange(3), kc.float64, kc.float64, (3,)),
    "vectors": (np.arange(12.0).reshape(4, 3), kc.vec3, kc.vec3, (4,)),
    "values": ([kc.vec2(1.0, 2.0), kc.vec2(3.0, 4.0)], None, kc.vec2, (2,)),
    "matrices": (np.zeros((2, 5, 2, 2)), kc.mat22d, kc.mat22d, (2, 5)),
    "transforms": (np.zeros((2, 7)), kc.transform, kc.transform, (2,)),
    "structs": ([Particle(mass=2.0), Particle(mass=3.0)], None, Particle, (2,)),
    "structured": (np.zeros(4, Particle.numpy_dtype()), Particle, Particle, (4,)),
    "bfloat16": ([1.5, 2.5], kc.bfloat16, kc.bfloat16, (2,)),
    "bool": ([True, False], None, kc.boolean, (2,)),
    "numpy dtype": ([1.0], np.float32, kc.float32, (1,)),
}


@pytest.mark.parametrize("case", MADE)
def test_arrays_have_the_dtype_and_shape_of_their_data(case: str) -> None:
    data, dtype, known, shape = MADE[case]
    array = kc.array(data, dtype=dtype)
    assert (array.dtype, array.shape, array.ndim) == (known, shape, len(shape))
    assert array.size == int(np.prod(shape))
    assert len(array) == shape[0]
    if isinstance(data, np.ndarray):
        np.testing.assert_array_equal(array.numpy(), data.astype(array.numpy().dtype))
        assert not np.shares_memory(array.numpy(), data)
        again = kc.array(array.numpy(), dtype=known, copy=False)
        assert np.shares_memory(again.numpy(), array.numpy())


def test_constructors() -> None:
    assert kc.zeros(3).dtype == kc.float32
    assert kc.zeros((2, 3), dtype=kc.vec3).numpy().shape == (2, 3, 3)
    assert kc.zeros(n=4).shape == (4,)
    np.testing.assert_array_equal(kc.ones(2, dtype=kc.mat22).numpy(), np.ones((2, 2, 2)))
    assert kc.full(2, 2.5).dtype == kc.float32
    assert kc.full(2, 7).dtype == kc.int32
    assert kc.full(2, kc.vec3(1.0, 2.0, 3.0)).list() == [kc.vec3(1.0, 2.0, 3.0)] * 2
    assert kc.full(2, np.float64(2.5)).dtype == kc.float64
    assert kc.full(1, Particle(mass=3.0))[0].mass == 3.0
    source = kc.ones((2, 2), dtype=kc.vec2, requires_grad=True)
    for make, value in (
        (kc.zeros_like, 0.0),
        (kc.ones_like, 1.0),
        (kc.empty_like, 0.0),
        (kc.clone, 1.0),
        (lambda a: kc.full_like(a, 4.0), 4.0),
    ):
        like = make(source)
        assert (like.shape, like.dtype, like.requires_grad) == ((2, 2), kc.vec2, True)
        np.testing.assert_array_equal(like.numpy(), np.full((2, 2, 2), value))
    target = kc.zeros(6)
    kc.copy(target, kc.array([1.0, 2.0, 3.0], dtype=float), dest_offset=2, src_offset=1, count=2)
    assert target.list() == [0.0, 0.0, 2.0, 3.0, 0.0, 0.0]
    assert kc.dtype_from_numpy(np.int16) == kc.int16
    assert kc.dtype_to_numpy(float) == np.float32


def test_views_share_memory_as_those_of_numpy_do() -> None:
    data = np.arange(24.0).reshape(4, 6)
    a = kc.array(data)
    for take in (
        lambda x: x[1],
        lambda x: x[1:3],
        lambda x: x[::-1, ::2],
        lambda x: x[..., 1],
        lambda x: x[-2, 1:],
        lambda x: x.transpose(),
        lambda x: x.reshape(3, 8),
        lambda x: x.reshape((2, -1)),
        lambda x: x.flatten() if isinstance(x, kc.Array) else x.reshape(-1),
    ):
        found, want = take(a), take(data)
        assert (found.shape, found.strides) == (want.shape, want.strides)
        np.testing.assert_array_equal(found.numpy(), want)
        assert np.shares_memory(found.numpy(), a.numpy())
        assert found.root is a
    assert a[3, 5] == 23.0
    assert isinstance(a[3, 5], np.float64)
    vectors = kc.array(np.arange(12.0).reshape(2, 2, 3), dtype=kc.vec3d)
    assert vectors[1, 0] == kc.vec3d(6.0, 7.0, 8.0)
    assert vectors.transpose((1, 0))[0, 1] == vectors[1, 0]
    assert [row.shape for row in vectors] == [(2,), (2,)]


def test_a_view_of_another_dtype_reinterprets() -> None:
    a = kc.array([1.0, -2.0], dtype=float)
    np.testing.assert_array_equal(a.view(kc.uint32).numpy(), a.numpy().view(np.uint32))
    q = kc.zeros(2, dtype=kc.vec4, requires_grad=True).view(kc.quat)
    assert (q.dtype, q.shape, q.requires_grad) == (kc.quat, (2,), True)
    bits = kc.zeros(2, requires_grad=True).view(kc.int32)
    assert not bits.requires_grad


def test_elements_are_assigned() -> None:
    a = kc.zeros((2, 3))
    a[0, 1] = 5.0
    a[1] = [1.0, 2.0, 3.0]
    a[:, 2] = 7.0
    np.testing.assert_array_equal(a.numpy(), [[0.0, 5.0, 7.0], [1.0, 2.0, 7.0]])
    v = kc.zeros(3, dtype=kc.vec2)
    v[0] = kc.vec2(1.0, 2.0)
    v[1:] = 3.0
    np.testing.assert_array_equal(v.numpy(), [[1.0, 2.0], [3.0, 3.0], [3.0, 3.0]])
    p = kc.zeros(2, dtype=Particle)
    p[1] = Particle(mass=4.0, core=Core(charge=2.0))
    assert p[1].core.charge == 2.0
    fields(p)["mass"].fill_(9.0)
    assert p.numpy()["mass"].tolist() == [9.0, 9.0]
    assert p.zero_().numpy()["mass"].tolist() == [0.0, 0.0]
    a[0] = a[1]
    a.assign(a[::-1])
    np.testing.assert_array_equal(a.numpy(), [[1.0, 2.0, 7.0], [1.0, 2.0, 7.0]])
    m = kc.zeros(2, dtype=kc.mat22)
    m.assign(np.arange(4.0).reshape(2, 2))
    np.testing.assert_array_equal(m[1], [[0.0, 1.0], [2.0, 3.0]])


def test_every_write_is_counted_for_all_views() -> None:
    a = kc.zeros(4)
    view = a[1:]
    counts = [a.version]
    for write in (
        lambda: a.fill_(1.0),
        lambda: view.zero_(),
        lambda: view.assign([1.0, 2.0, 3.0]),
        lambda: a.__setitem__(0, 3.0),
        lambda: kc.launch(double, 3, [kc.ones(3)], [view]),
        lambda: kc.copy(a, kc.ones(4)),
        lambda: a.mark_write(),
    ):
        write()
        assert a.version == view.version
        counts.append(a.version)
    assert counts == list(range(len(counts)))
    kc.launch(double, 4, [a], [kc.zeros(4)])
    assert a.version == counts[-1]


def test_gradients_of_views_are_views_of_gradients() -> None:
    a = kc.zeros((3, 4), requires_grad=True)
    view = a[1:, ::2].transpose()
    assert a.grad is a.grad
    assert grad(view).shape == view.shape
    grad(view)[0, 0] = 5.0
    assert grad(a)[1, 0] == 5.0
    whole = kc.ones((3, 4))
    a.grad = whole
    assert a.grad is whole
    assert grad(view)[0, 0] == 1.0
    assert kc.zeros(3).grad is None
    p = kc.zeros(2, dtype=Particle, requires_grad=True)
    grad(fields(fields(p)["core"])["charge"]).fill_(2.0)
    assert grad(p)[1].core.charge == 2.0


def test_numpy_and_dlpack_see_the_same_memory() -> None:
    a = kc.array(np.arange(6.0).reshape(2, 3))
    for seen in (a.numpy(), np.asarray(a), np.from_dlpack(a), np.array(a, copy=False)):
        assert np.shares_memory(seen, a.numpy())
        assert seen.shape == (2, 3)
    assert not np.shares_memory(np.array(a), a.numpy())
    assert a.__dlpack_device__() == (1, 0)
    assert a.__array_interface__["data"][0] == a.ptr
    data = np.arange(3.0)
    data.flags.writeable = False
    fixed = kc.array(data, copy=False)
    assert fixed.is_read_only
    assert not np.asarray(fixed).flags.writeable
    assert fixed.__array_interface__["data"][1]
    with pytest.raises(kc.KernelArgumentError, match="read-only"):
        fixed.fill_(0.0)
    assert np.from_dlpack(a[:, ::-2]).tolist() == a.numpy()[:, ::-2].tolist()


def test_dlpack_is_taken_without_a_copy() -> None:
    data = np.arange(6.0).reshape(2, 3)
    for array in (kc.from_dlpack(data), kc.from_dlpack(kc.array(data, copy=False))):
        assert np.shares_memory(array.numpy(), data)
    rows = kc.from_dlpack(data, dtype=kc.vec3d)
    rows[0] = kc.vec3d(9.0, 9.0, 9.0)
    assert data[0].tolist() == [9.0, 9.0, 9.0]
    again = kc.from_dlpack(kc.to_dlpack(rows))
    assert np.shares_memory(again.numpy(), data)


def test_launches_take_arrays_of_every_kind() -> None:
    x, y = kc.array([1.0, 2.0, 3.0], dtype=float), kc.zeros(6)
    kc.launch(double, 3, [x[::-1]], [y[::-2]])
    assert y.list() == [0.0, 2.0, 0.0, 4.0, 0.0, 6.0]
    v, w = kc.array(np.eye(3), dtype=kc.vec3), kc.zeros((3, 2), dtype=kc.vec3)
    kc.launch(cross_up, (3, 2), [v], [w])
    up = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])
    np.testing.assert_array_equal(w.numpy(), np.cross(np.eye(3)[:, None], up[None]))
    p = kc.array([Particle(mass=2.0, core=Core(charge=k), pos=(1, 1, 1)) for k in (3.0, 4.0)])
    out = kc.zeros(2, dtype=kc.float64)
    kc.launch(charge_times_mass, 2, [p], [out])
    assert out.list() == [6.0, 8.0]
    assert p[1].pos == kc.vec3(2.0, 2.0, 2.0)
    assert p.version == 1


@pytest.mark.parametrize("dtype", [kc.int16, kc.float64, kc.vec3, kc.mat22d])
def test_generic_kernels_take_the_type_of_an_array(dtype: Any) -> None:
    x = kc.full(3, 2, dtype=dtype)
    y = kc.zeros_like(x)
    kc.launch(double_any, 3, [x], [y])
    np.testing.assert_array_equal(y.numpy(), np.full_like(y.numpy(), 4))


def test_map_of_arrays_gives_arrays() -> None:
    q = kc.array(np.eye(4), dtype=kc.quat)
    found = kc.map(kc.quat_inverse, q)
    assert (found.dtype, found.shape) == (kc.quat, (4,))
    np.testing.assert_array_equal(found.numpy(), np.diag([-1.0, -1.0, -1.0, 1.0]))
    lengths = kc.map(kc.length, kc.ones((2, 3), dtype=kc.vec4))
    assert (lengths.dtype, lengths.shape) == (kc.float32, (2, 3))
    total = kc.map(kc.max, kc.zeros((2, 1)), kc.array([1.0, -1.0], dtype=float))
    assert total.list() == [1.0, 0.0, 1.0, 0.0]
    out = kc.zeros(2, dtype=kc.vec2)
    kc.map(kc.normalize, kc.array([[3.0, 4.0], [0.0, 2.0]], dtype=kc.vec2), out=out)
    np.testing.assert_allclose(out.numpy(), [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6)


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    a = kc.array([1.0, 2.5], dtype=kc.bfloat16)
    assert a.numpy().dtype == ml_dtypes.bfloat16
    y = kc.zeros(2, dtype=kc.bfloat16)
    kc.launch(double_any, 2, [a], [y])
    assert y.list() == [2.0, 5.0]


@pytest.mark.parametrize("case", ["list of floats", "matrices", "structs", "bfloat16"])
def test_arrays_are_pickled_and_copied(case: str) -> None:
    data, dtype, _, _ = MADE[case]
    array = kc.array(data, dtype=dtype, requires_grad=True)
    for again in (pickle.loads(pickle.dumps(array)), copy.deepcopy(array), array.clone()):
        assert (again.dtype, again.shape, again.requires_grad) == (array.dtype, array.shape, True)
        np.testing.assert_array_equal(again.numpy(), array.numpy())
        assert not np.shares_memory(again.numpy(), array.numpy())


def test_arrays_are_keys_by_identity() -> None:
    a = kc.zeros(2)
    assert {a: 1}[a] == 1
    assert a != kc.zeros(2)
    assert repr(kc.array([1.0], dtype=float)) == "array([1.], dtype=float32)"
    assert repr(kc.zeros(0, dtype=kc.vec3)) == "array([], shape=(0,), dtype=vec3)"
    assert str(kc.array([1, 2])) == "[1 2]"


def test_there_is_one_device() -> None:
    kc.init()
    kc.synchronize()
    kc.synchronize_device("cpu")
    with kc.ScopedDevice("cpu"):
        assert kc.get_device() == kc.zeros(1, device="cpu").device == "cpu"
    kc.set_device(kc.get_device())
    assert kc.get_device("cpu").is_cpu
    assert kc.get_devices()[0] == "cpu"
    assert not kc.is_cuda_available()
    kc.launch(double, 1, [kc.zeros(1)], [kc.zeros(1)], device=kc.get_device(), stream=None)


X = kc.zeros(4)
REFUSED: dict[str, Callable[[], Any]] = {
    "kind": lambda: kc.array([1.5], dtype=int),
    "range": lambda: kc.array([300], dtype=kc.int8),
    "components": lambda: kc.array(np.zeros((4, 2)), dtype=kc.vec3),
    "ragged": lambda: kc.array([[1.0], [2.0, 3.0]]),
    "no_dtype": lambda: kc.array(["a"]),
    "dtype": lambda: kc.zeros(3, dtype=list),
    "shape": lambda: kc.array([1.0, 2.0], shape=(3,)),
    "ndim": lambda: kc.array2d([1.0]),
    "dims": lambda: kc.zeros((1, 1, 1, 1, 1)),
    "negative": lambda: kc.zeros(-1),
    "no_shape": lambda: kc.zeros(),
    "share": lambda: kc.array(np.zeros(3), dtype=float, copy=False),
    "dlpack": lambda: kc.from_dlpack([1.0]),
    "device": lambda: kc.zeros(3, device="gpu"),
    "set_device": lambda: kc.set_device("gpu:0"),
    "to": lambda: X.to("gpu:0"),
    "reshape": lambda: X.reshape(3),
    "flatten_strided": lambda: kc.zeros((2, 3)).transpose().flatten(),
    "axes": lambda: X.transpose((1,)),
    "view": lambda: X.view(kc.vec2),
    "mask": lambda: X[np.array([True, False, True, False])],
    "assign": lambda: X.assign([1.0, 2.0]),
    "value": lambda: X.fill_("one"),
    "address": lambda: kc.array(ptr=X.ptr, dtype=float, shape=5, capacity=16),
    "strides_without_address": lambda: kc.array([1.0], strides=(8,)),
    "components_in_a_row": lambda: kc.array([1.0, 2.0, 3.0, 4.0], dtype=kc.vec3),
    "operands": lambda: kc.ones(3) + kc.ones(2),
    "gradient_of_view": lambda: setattr(X[1:], "requires_grad", True),
    "gradient_shape": lambda: setattr(kc.zeros(2, requires_grad=True), "grad", kc.zeros(3)),
    "copy": lambda: kc.copy(X, kc.zeros(4, dtype=int)),
    "copy_range": lambda: kc.copy(X, X, dest_offset=3, count=2),
    "launch_dtype": lambda: kc.launch(double, 4, [kc.zeros(4, dtype=kc.vec3)], [X]),
    "launch_struct": lambda: kc.launch(charge_times_mass, 4, [X], [X]),
    "options": lambda: kc.array(requires_grad=True),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_arrays_are_refused(case: str, golden_error: Golden) -> None:
    with pytest.raises(kc.KernelError) as caught:
        REFUSED[case]()
    text = str(caught.value).replace(f"{ROOT}/", "")
    text = re.sub(r"line \d+", "line N", text)
    golden_error(case, f"{type(caught.value).__name__}: {text}")


def test_indices_out_of_range_are_those_of_python() -> None:
    for index in (4, -5, (0, 0)):
        with pytest.raises(IndexError):
            X[index]
