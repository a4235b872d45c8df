"""Vectors, matrices, quaternions and transforms on the host; NumPy is the oracle."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelAttributeError, KernelTypeError
from kernelcore.frontend.values.component import attribute
from kernelcore.language import composite_types, types
from kernelcore.language.composite import Composite
from kernelcore.language.composite_types import (
    mat22,
    mat22d,
    mat33,
    matrix,
    quat,
    quatd,
    quaternion,
    transform,
    transformation,
    transformd,
    vec2,
    vec2d,
    vec3,
    vec3d,
    vec3h,
    vec3i,
    vec3ub,
    vec4,
    vector,
)
from kernelcore.language.types import Dense, Scalar, type_of

SUFFIXES = {
    "": "float32", "f": "float32", "d": "float64", "h": "float16", "b": "int8", "ub": "uint8",
    "s": "int16", "us": "uint16", "i": "int32", "ui": "uint32", "l": "int64", "ul": "uint64",
}  # fmt: skip
FLOAT_SUFFIXES = ("", "f", "d", "h")
SHAPES = {
    "mat22": ("matrix", (2, 2)),
    "mat33": ("matrix", (3, 3)),
    "mat44": ("matrix", (4, 4)),
    "quat": ("quaternion", (4,)),
    "transform": ("transform", (7,)),
    "spatial_vector": ("vector", (6,)),
    "spatial_matrix": ("matrix", (6, 6)),
}
NAMED = {
    **{f"vec{n}{s}": Dense("vector", getattr(types, t), (n,))
       for n in (2, 3, 4) for s, t in SUFFIXES.items()},
    **{f"{name}{s}": Dense(kind, getattr(types, SUFFIXES[s]), shape)
       for name, (kind, shape) in SHAPES.items() for s in FLOAT_SUFFIXES},
}  # fmt: skip
ALL = sorted({cls for name in NAMED if (cls := getattr(composite_types, name))}, key=repr)
RNG = np.random.default_rng(7)


def sample(cls: Any) -> np.ndarray[Any, Any]:
    return RNG.integers(1, 9, cls.shape).astype(cls.dtype.numpy)


def rotation(x: float, y: float, z: float, w: float) -> np.ndarray[Any, Any]:
    """The matrix of a unit quaternion, from its definition."""
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_name_says_the_type(name: str) -> None:
    cls = getattr(composite_types, name)
    assert type_of(cls) == NAMED[name]
    assert (cls.dtype, cls.shape) == (NAMED[name].dtype, NAMED[name].shape)
    assert np.asarray(cls()).dtype == cls.dtype.numpy


def test_equal_arguments_give_one_class() -> None:
    assert (
        vector(3, float) is vector(length=3, dtype=types.float32) is vec3 is composite_types.vec3f
    )
    assert matrix((2, 2), types.float64) is mat22d
    assert quaternion(float) is quat
    assert transformation(dtype=types.float64) is transformd
    assert isinstance(vec3(), vec3)
    assert not isinstance(vec3(), vec3d)
    assert [repr(c) for c in (vec3, mat22d, vector(5, types.float64))] == [
        "vec3", "mat22d", "vector(5, float64)"
    ]  # fmt: skip


@pytest.mark.parametrize("cls", ALL, ids=repr)
def test_values_and_classes_survive_pickling_and_copying(cls: Any) -> None:
    value = cls(sample(cls))
    for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert type(other) is cls
        assert other == value
        other[0] = other[0] + other[0]
        assert other != value
    assert pickle.loads(pickle.dumps(cls)) is cls


@pytest.mark.parametrize("scalar", types.SCALARS, ids=repr)
def test_a_scalar_type_is_one_object(scalar: types.Scalar) -> None:
    for other in (pickle.loads(pickle.dumps(scalar)), copy.copy(scalar), copy.deepcopy(scalar)):
        assert other is scalar


def test_classes_without_components_pickle_by_name() -> None:
    assert pickle.loads(pickle.dumps(Composite)) is Composite
    generic = vector(Any, types.AnyFloat)
    assert pickle.loads(pickle.dumps(generic)) is generic


@pytest.mark.parametrize("cls", ALL, ids=repr)
def test_constructors_agree(cls: Any) -> None:
    data = sample(cls)
    expected = cls(data)
    assert np.array_equal(np.asarray(expected), data)
    for other in (cls(*data.ravel().tolist()), cls(data.tolist()), cls(expected), cls(*data)):
        assert other == expected
    assert not np.asarray(cls()).any()


def test_constructors_of_each_kind() -> None:
    assert vec3(2) == [2, 2, 2]
    assert mat22(2) == [[2, 2], [2, 2]]
    assert mat22(vec2(1, 2), (3, 4)) == mat22(1, 2, 3, 4)
    assert quat(vec3(1, 2, 3), 4) == quat(1, 2, 3, 4)
    assert transform((1, 2, 3), quat(4, 5, 6, 7)) == transform(1, 2, 3, 4, 5, 6, 7)
    assert matrix((1, 3), float)([1, 2, 3]) == [[1, 2, 3]]


def test_a_value_of_another_type_is_converted_as_a_cast_does() -> None:
    assert vec3i(vec3(1.9, -1.9, np.nan)) == (1, -1, 0)
    assert vec3i(vec3d(1e300, -1e300, np.inf)) == (2**31 - 1, -(2**31), 2**31 - 1)
    assert vec3ub(vec3i(256, 257, -1)) == (0, 1, 255)
    assert vec3(vec3d(0.1, 0.2, 0.3)) == np.array([0.1, 0.2, 0.3], np.float32)


def test_a_constructor_copies() -> None:
    data = np.ones(3, np.float32)
    value = vec3(data)
    other = vec3(value)
    data[:] = 5
    other[0] = 7
    assert value == (1, 1, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vec3(1, 2), "expected 0, 1 or 3 arguments, found 2"),
        (lambda: vec3((1, 2)), "expected 3 components, found 2"),
        (lambda: vec3(np.zeros(4)), r"shape \(3,\), found an array of shape \(4,\)"),
        (lambda: vec3(None), "found None"),
        (lambda: vec3("abc"), "found 'abc'"),
        (lambda: vec3(1, "b", 3), "found 3"),
        (lambda: vec3i(1, 2.5, 3), "expected int32, found 2.5"),
        (lambda: vec3i(np.zeros(3)), "expected int32, found an array"),
        (lambda: vec3i(2**31, 0, 0), "expected int32, found 2147483648"),
        (lambda: vec3ub(np.array([1, -1, 2])), "expected uint8, found -1"),
        (lambda: vec3(10**400), "1329 bits"),
        (lambda: vec3(1j, 0, 0), "vec3"),
        (lambda: quat(1), "quat"),
        (lambda: mat22([1, 2], [3]), "expected 2 components, found 1"),
        (lambda: vector(Any, float)(1), "stands for several types"),
        (lambda: vector(3, Any)(1), "stands for several types"),
        (lambda: quaternion(types.AnyFloat)(), "stands for several types"),
        (lambda: vector(-1, float), "an extent of at least 0, found -1"),
        (lambda: vector(2.0, float), "an extent of at least 0, found 2.0"),
        (lambda: vector(3, str), "expected a scalar dtype"),
        (lambda: matrix(3, float), "a shape of two extents"),
        (lambda: quaternion(int), "expected a float dtype"),
        (lambda: transformation(types.AnyNumber), "expected a float dtype"),
    ],
)
def test_invalid_composites_are_refused(make: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message) as caught:
        make()
    assert caught.value.remedy


def test_generic_classes_are_annotations() -> None:
    assert vector(Any, Any).kernel_type == Dense("vector", types.AnyScalar, (None,))
    assert matrix((Any, 3), types.AnyFloat).kernel_type.shape == (None, 3)
    assert matrix(Any, float).kernel_type.shape == (None, None)
    assert quaternion().kernel_type.dtype == transformation(Any).dtype == types.AnyFloat


def test_components_by_index_and_name() -> None:
    v = vec4(1, 2, 3, 4)
    assert [v[0], v[-1], v.x, v.y, v.z, v.w] == [1, 4, 1, 2, 3, 4]
    assert type(v.x) is np.float32
    v.y = 7
    v[2:] = (8, 9)
    assert v == (1, 7, 8, 9)
    assert v[1:3] == vec2(7, 8)
    assert type(v[1:3]) is vec2
    assert list(vec3i(4, 5, 6)) == [4, 5, 6]
    assert (len(v), len(mat33()), len(transform())) == (4, 3, 7)


def test_values_have_the_swizzles_that_kernels_have() -> None:
    words = ["".join(w) for n in (2, 3, 4) for w in itertools.product("xyzw", repeat=n)]
    for cls in (vec2, vec3, vec4, quat):
        value = cls(*range(1, cls.length + 1))
        for word in words:
            selected = attribute(cls.kernel_type, word)
            assert hasattr(value, word) == (selected is not None)
            if selected is not None:
                assert getattr(value, word) == ["xyzw".index(letter) + 1 for letter in word]
    v = vec4(1, 2, 3, 4)
    v.wz = v.xy
    assert v == (1, 2, 2, 1)


def test_parts_of_matrices_share_their_memory() -> None:
    data = np.arange(9, dtype=np.float32).reshape(3, 3)
    m = mat33(data)
    assert [type(r) for r in m] == [vec3] * 3
    for index in (1, slice(0, 2), (slice(None), 1), (slice(0, 2), slice(1, 3)), (2, -1)):
        assert np.array_equal(np.asarray(m[index]), data[index])
    assert type(m[:2, :2]) is mat22
    m[0][1] = 10
    m[1, 1:] = vec2(11, 12)
    m[2] = 0
    assert m == [[0, 10, 2], [3, 11, 12], [0, 0, 0]]


def test_position_and_rotation_of_a_transform() -> None:
    t = transform((1, 2, 3), (0, 0, 0, 1))
    assert t.p == vec3(1, 2, 3)
    assert t.q == quat(0, 0, 0, 1)
    t.p = t.p + vec3(1)
    t.q.w = 2
    t.p.x = 9
    assert t == (9, 3, 4, 0, 0, 0, 2)
    assert repr(t) == "transform((9.0, 3.0, 4.0), (0.0, 0.0, 0.0, 2.0))"


def test_components_that_there_are_not() -> None:
    with pytest.raises(IndexError):
        vec3()[3]
    with pytest.raises(KernelAttributeError, match="vec2 has no component 'z'"):
        vec2().z = 1
    assert not hasattr(vec2(), "z")
    with pytest.raises(AttributeError):
        vec2().position = 1
    for index in (1.0, None, "x", slice(3, 3)):
        with pytest.raises(KernelTypeError):
            vec3()[index]
    with pytest.raises(KernelTypeError, match=r"expected int32, found 1\.5"):
        vec3i()[0] = 1.5
    with pytest.raises(KernelTypeError, match="expected 2 components, found 3"):
        vec3()[:2] = (1, 2, 3)


@pytest.mark.parametrize("cls", ALL, ids=repr)
def test_componentwise_arithmetic_is_that_of_numpy(cls: Any) -> None:
    a, b, s = sample(cls), sample(cls), cls.dtype.numpy.type(3)
    x, y = cls(a), cls(b)
    pairs = [(x + y, a + b), (x - y, a - b), (x * 3, a * s), (3 * x, a * s), (-x, -a), (+x, a)]
    if cls.dtype.is_float:
        pairs += [(x / 3, a / s), (3 / x, s / a)]
    for found, expected in pairs:
        assert type(found) is cls
        assert np.asarray(found).dtype == expected.dtype
        assert np.array_equal(np.asarray(found), expected)


def test_arithmetic_stays_in_the_component_type() -> None:
    assert vec3ub(250) + vec3ub(10) == (4, 4, 4)
    assert vec3i(2**31 - 1) * 2 == (-2, -2, -2)
    assert vec3h(2048) + vec3h(1) == (2048, 2048, 2048)
    assert np.array_equal(np.asarray(vec3(1, -1, 0) / 0), [np.inf, -np.inf, np.nan], equal_nan=True)
    assert type(np.float64(2) * vec3(1)) is vec3
    assert type(np.int64(2) * vec3i(1)) is vec3i


@pytest.mark.parametrize("scalar", [types.float32, types.float64, types.int32], ids=str)
@pytest.mark.parametrize("op", ["*", "@"])
def test_matrix_products_are_those_of_numpy(scalar: Scalar, op: str) -> None:
    shapes = [((2, 3), (3, 4)), ((2, 3), (3,)), ((2,), (2, 3)), ((3, 3), (3, 3))]
    for left, right in shapes:
        a, b = (RNG.integers(-5, 5, s).astype(scalar.numpy) for s in (left, right))
        x, y = (
            (vector(d.shape[0], scalar) if d.ndim == 1 else matrix(d.shape, scalar))(d)
            for d in (a, b)
        )
        found = x * y if op == "*" else x @ y
        assert np.array_equal(np.asarray(found), a @ b)
        assert np.asarray(found).dtype == scalar.numpy


Factor = kc.array(dtype=Any)


@kc.kernel
def multiplied(a: Factor, b: Factor, c: Factor):
    i = kc.tid()
    c[i] = a[i] * b[i]


@pytest.mark.parametrize("scalar", [types.float16, types.float32, types.float64])
@pytest.mark.parametrize("make", [quaternion, transformation, lambda **t: matrix((3, 3), **t)])
def test_products_have_the_bits_of_those_in_kernels(make: Any, scalar: Scalar) -> None:
    cls = make(dtype=scalar)
    shape = np.asarray(cls()).shape
    rng = np.random.default_rng(0)
    a, b = (kc.array(rng.standard_normal((300, *shape)), dtype=cls) for _ in range(2))
    c = kc.zeros(300, dtype=cls)
    kc.launch(multiplied, 300, [a, b, c])
    pairs = zip(a.numpy(), b.numpy(), strict=True)
    found = [np.asarray(cls(*x.ravel()) * cls(*y.ravel())) for x, y in pairs]
    np.testing.assert_array_equal(found, c.numpy())


def test_products_of_quaternions_and_transforms_compose_rotations() -> None:
    p, q = RNG.normal(size=(2, 4))
    p, q = p / np.linalg.norm(p), q / np.linalg.norm(q)
    close: Any = {"rtol": 1e-14, "atol": 1e-14}
    product = quatd(p) * quatd(q)
    np.testing.assert_allclose(rotation(*product), rotation(*p) @ rotation(*q), **close)
    s, t = RNG.normal(size=(2, 3))
    both = transformd(s, p) @ transformd(t, q)
    np.testing.assert_allclose(both.p, s + rotation(*p) @ t, **close)
    np.testing.assert_allclose(both.q, product, **close)
    assert quat(1, 0, 0, 0) * quat(0, 1, 0, 0) == quat(0, 0, 1, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vec3() * vec3(), "cw_mul"),
        (lambda: vec3() @ vec3(), "dot"),
        (lambda: vec3() + vec3d(), r"convert it: vec3\(...\)"),
        (lambda: vec3() - 1, "no operator for vec3 and 1"),
        (lambda: vec3().__add__((1, 2, 3)), "no operator for vec3"),
        (lambda: vec3() / vec3(), "cw_div"),
        (lambda: vec3i() / 2, "no float components"),
        (lambda: vec3i() * 2.5, "no operator for vec3i and 2.5"),
        (lambda: vec3i() * 2**31, "no operator for vec3i and 2147483648"),
        (lambda: np.ones(3) * vec3(), "multiply by a number"),
        (lambda: mat22() * mat33(), "inner extents"),
        (lambda: mat22() * vec2d(), "convert one of them"),
        (lambda: quat() * vec3(), "quat_rotate"),
        (lambda: transform() * vec3(), "transform_point"),
        (lambda: mat22() @ 2, "use [*] to scale"),
        (lambda: -vector(2, bool)(), "no arithmetic"),
    ],
)
def test_operators_that_there_are_not(make: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        make()


def test_equality_is_one_bool() -> None:
    assert (vec3(1, 2, 3) == vec3(1, 2, 3)) is True
    assert (vec3(1, 2, 3) != vec3(1, 2, 4)) is True
    assert vec3() != vec3d()
    assert vec4() != quat()
    assert vec3(1) == np.ones(3)
    assert np.ones(3) == vec3(1)
    assert vec3() != (0, 0)
    assert vec3() != "vec3"
    assert vec3(np.nan) != vec3(np.nan)
    with pytest.raises(TypeError, match="unhashable"):
        hash(vec3())


def test_repr_is_the_constructor() -> None:
    samples = (vec3(1, 0.1, 3), vec3i(1, 2, 3), mat22(1, 2, 3, 4), quat(1, 2, 3, 4), transform())
    for value in samples:
        assert eval(repr(value), dict(vars(composite_types))) == value
    assert repr(vec3(1.0, 2.0, 3.0)) == "vec3(1.0, 2.0, 3.0)"
    assert repr(vector(2, types.bfloat16)(1)) == "vector(2, bfloat16)(1, 1)"


def test_numpy_sees_the_components() -> None:
    v = vec3(3, 4, 0)
    assert np.linalg.norm(v) == 5
    view = np.asarray(v)
    assert not view.flags.writeable
    v.x = 0
    assert view[0] == 0
    np.array(v)[0] = 7
    assert v.x == 0
    assert np.asarray(v, np.float64).dtype == np.float64
    assert np.stack([vec3(1), vec3(2)]).shape == (2, 3)
