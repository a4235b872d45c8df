"""The vector and matrix library where it has cases: zeros, repeated values, half turns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins import LIBRARY
from kernelcore.builtins.decomposition import eig3, qr3, svd2, svd3
from kernelcore.builtins.matrix import determinant, identity, inverse, mul
from kernelcore.builtins.quaternion import (
    quat_from_euler,
    quat_from_matrix,
    quat_identity,
    quat_slerp,
    quat_to_axis_angle,
    quat_to_euler,
    quat_to_matrix,
    quat_twist,
    quat_twist_angle_signed,
)
from kernelcore.builtins.transform import (
    transform_compose,
    transform_decompose,
    transform_identity,
    transform_set_translation,
)
from kernelcore.builtins.vector import argmax, argmin, length, norm_huber, normalize
from kernelcore.language import composite_types
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.algebra import about, hamilton, turn
from tests.helpers.operations import run_operation
from tests.passes.autodiff.test_derivatives import pull

MATRIX_CLASSES = [composite_types.mat33, composite_types.mat33d]
V3D = kc.array(dtype=composite_types.vec3d)
M33D = kc.array(dtype=composite_types.mat33d)
QUATD = kc.array(dtype=composite_types.quatd)
F64 = kc.array(dtype=kc.float64)
largest, smallest = LIBRARY["max"], LIBRARY["min"]


@kc.kernel
def lengths(v: V3D, size: F64, direction: V3D):
    i = kc.tid()
    size[i] = length(v[i])
    direction[i] = normalize(v[i])


def test_zero_has_length_and_direction_zero_and_so_have_their_derivatives() -> None:
    op = kernel_operation(lengths, ["size", "direction"])
    point = [np.zeros((2, 3))]
    size, direction = run_operation(op, point)
    (ct_v,) = pull(op, point, [0], [np.ones(2), np.ones((2, 3))], False)
    for found in (size, direction, ct_v):
        assert np.all(found == 0.0)


def test_a_nan_is_never_lost() -> None:
    v = composite_types.vec3(1.0, float("nan"), 2.0)
    assert np.isnan(length(v))
    assert np.all(np.isnan(np.asarray(normalize(v))))
    assert np.isnan(smallest(v))
    assert (argmin(v), argmax(v)) == (1, 1)


def test_the_first_of_equal_components_is_found() -> None:
    v = composite_types.vec4i(3, -1, 3, -1)
    assert (argmin(v), argmax(v), smallest(v), largest(v)) == (1, 0, -1, 3)


@kc.kernel
def places(v: V3D, low: kc.array(dtype=int), high: kc.array(dtype=int)):
    i = kc.tid()
    low[i] = argmin(v[i])
    high[i] = argmax(v[i])


def test_kernels_find_places_as_the_host_does() -> None:
    v = np.array([*itertools.product([1.0, 2.0, np.nan], repeat=3)])
    op = kernel_operation(places, ["low", "high"])
    low, high = run_operation(op, [v])
    np.testing.assert_array_equal(low, np.argmin(v, axis=1))
    np.testing.assert_array_equal(high, np.argmax(v, axis=1))


@kc.kernel
def constants(
    m: M33D,
    q: QUATD,
    t: kc.array(dtype=composite_types.transformd),
    s: kc.array(dtype=composite_types.quat),
):
    i = kc.tid()
    m[i] = identity(3, kc.float64)
    q[i] = quat_identity(dtype=kc.float64)
    t[i] = transform_identity(kc.float64)
    s[i] = quat_identity()


def test_identities() -> None:
    op = kernel_operation(constants, ["m", "q", "t", "s"], launch_dims=1, output_dims=1)
    m, q, t, s = run_operation(op, [])
    np.testing.assert_array_equal(m[0], np.eye(3))
    np.testing.assert_array_equal(q[0], [0, 0, 0, 1])
    np.testing.assert_array_equal(s[0], [0, 0, 0, 1])
    np.testing.assert_array_equal(t[0], [0, 0, 0, 0, 0, 0, 1])
    assert quat_identity() == composite_types.quat(0, 0, 0, 1)
    assert transform_identity() == composite_types.transform(0, 0, 0, 0, 0, 0, 1)
    assert identity(n=2, dtype=kc.int32) == composite_types.matrix((2, 2), int)(1, 0, 0, 1)


def test_products_of_other_extents_are_refused() -> None:
    with pytest.raises(kc.KernelTypeError, match="dot"):
        mul(composite_types.mat33(), composite_types.vec2())


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_inverse_of_a_singular_matrix_is_zero(n: int) -> None:
    m = composite_types.matrix((n, n), float)(1.0)
    assert determinant(m) == 0.0
    assert inverse(m) == type(m)()


def hard_matrices() -> list[np.ndarray]:
    """Repeated, vanishing and widely spread singular values; numbers of extreme magnitude."""
    rng = np.random.default_rng(0)
    spectra = [(1, 1, 1), (1, 1, 0), (1, 0, 0), (2, 1, 1), (2, 2, 1), (1, 1e-5, 0), (1, 1e-9, 1e-9)]
    spectra += [(1, 1 - 1e-9, 0.3), (1, 1 + 1e-15, 1), (1, 1e-4, 1e-8)]
    found = [np.zeros((3, 3)), np.eye(3), -np.eye(3), np.ones((3, 3)), np.eye(3)[[1, 0, 2]]]
    found += [np.diag(np.eye(3)[k]) for k in range(3)]
    found += [np.outer(np.eye(3)[j], np.eye(3)[k]) for j in range(3) for k in range(3)]
    for spectrum in spectra:
        u, v = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2))
        found += [u @ np.diag(spectrum) @ v, u @ np.diag(spectrum) @ u.T]
    found += [scale * rng.standard_normal((3, 3)) for scale in (1e-30, 1e-10, 1.0, 1e10, 1e30)]
    return found


def close(found: np.ndarray, want: np.ndarray, cls: Any, scale: float) -> None:
    eps = float(np.finfo(cls.dtype.numpy).eps)
    assert np.all(np.abs(found - want) <= 40.0 * eps * scale), (found, want)


def wide(*parts: Any) -> list[np.ndarray]:
    return [np.asarray(p, np.float64) for p in parts]


def is_rotation(q: np.ndarray, cls: Any) -> None:
    close(q.T @ q, np.eye(3), cls, 1.0)
    assert np.linalg.det(q) > 0.0


@pytest.mark.parametrize("cls", MATRIX_CLASSES, ids=repr)
def test_decompositions_hold_for_hard_matrices(cls: Any) -> None:
    for matrix in hard_matrices():
        a = cls(matrix)
        (want,) = wide(a)
        scale = np.abs(want).max()
        u, s, v = wide(*svd3(a))
        is_rotation(u, cls)
        is_rotation(v, cls)
        close((u * s) @ v.T, want, cls, scale)
        close(np.abs(s), np.linalg.svd(want)[1], cls, scale)
        assert s[0] >= 0.0
        assert s[1] >= 0.0
        q, r = wide(*qr3(a))
        is_rotation(q, cls)
        close(q @ r, want, cls, scale)
        assert np.all(np.tril(r, -1) == 0.0)
        assert r[0, 0] >= 0.0
        assert r[1, 1] >= 0.0
        q, d = wide(*eig3(a))
        is_rotation(q, cls)
        close((q * d) @ q.T, 0.5 * (want + want.T), cls, scale)
        assert np.all(np.diff(d) >= 0.0)


@pytest.mark.parametrize("cls", [composite_types.mat22, composite_types.mat22d], ids=repr)
def test_svd2_holds_for_hard_matrices(cls: Any) -> None:
    for matrix in hard_matrices():
        a = cls(matrix[:2, 1:])
        (want,) = wide(a)
        u, s, v = wide(*svd2(a))
        close(u.T @ u, np.eye(2), cls, 1.0)
        close(v.T @ v, np.eye(2), cls, 1.0)
        close((u * s) @ v.T, want, cls, np.abs(want).max())
        assert s[0] >= 0.0
        assert s[1] >= 0.0


@kc.kernel
def eigenvalue_sums(a: M33D, total: F64, square: F64):
    i = kc.tid()
    _, d = eig3(a[i])
    total[i] = d[0] + d[1] + d[2]
    square[i] = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]


def test_symmetric_functions_of_repeated_eigenvalues_have_derivatives() -> None:
    op = kernel_operation(eigenvalue_sums, ["total", "square"])
    a = np.stack([np.zeros((3, 3)), np.eye(3), np.diag([2.0, 1.0, 1.0]), np.diag([1.0, 2.0, 2.0])])
    (ct_a,) = pull(op, [a], [0], [np.ones(4), np.ones(4)], False)
    np.testing.assert_allclose(ct_a, np.eye(3) + 2.0 * a, rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("axes", [*itertools.permutations(range(3))], ids=str)
def test_euler_angles_hold_at_gimbal_lock(axes: tuple[int, int, int]) -> None:
    i, j, k = axes
    for middle in (np.pi / 2, -np.pi / 2, 0.0):
        e = np.zeros(3)
        e[[i, j, k]] = 0.4, middle, -0.7
        q = composite_types.quatd(np.asarray(quat_from_euler(composite_types.vec3d(e), i, j, k)))
        back = quat_from_euler(quat_to_euler(q, i, j, k), i, j, k)
        np.testing.assert_allclose(turn(np.asarray(back)), turn(np.asarray(q)), atol=1e-14)


def test_half_turns_come_back_from_their_matrices() -> None:
    rng = np.random.default_rng(1)
    axes = [*np.eye(3), *-np.eye(3), *rng.standard_normal((5, 3))]
    for axis in axes:
        q = composite_types.quatd(*(axis / np.linalg.norm(axis)), 0.0)
        back = quat_from_matrix(quat_to_matrix(q))
        np.testing.assert_allclose(abs(np.asarray(back) @ np.asarray(q)), 1.0, rtol=1e-15)


def test_no_turn_has_no_axis() -> None:
    for w in (1.0, -1.0):
        axis, angle = quat_to_axis_angle(composite_types.quatd(0, 0, 0, w))
        assert (axis, angle) == (composite_types.vec3d(), 0.0)


def test_a_half_turn_about_a_perpendicular_axis_has_no_twist() -> None:
    axis, q = composite_types.vec3d(0, 0, 1), composite_types.quatd(0, 1, 0, 0)
    assert quat_twist(axis, q) == quat_identity(kc.float64)
    assert quat_twist_angle_signed(axis, q) == 0.0


@kc.kernel
def between(a: QUATD, b: QUATD, t: F64, q: QUATD):
    i = kc.tid()
    q[i] = quat_slerp(a[i], b[i], t[i])


def test_close_rotations_are_interpolated_with_their_derivative() -> None:
    start = about(2, 0.8)
    op = kernel_operation(between, ["q"])
    for angle in (0.0, 1e-9, 1e-4, 0.199, 0.201, 3.0):
        end = hamilton(about(0, angle), start)
        point = [start[None], end[None], np.array([0.3])]
        want = hamilton(about(0, 0.3 * angle), start)
        np.testing.assert_allclose(run_operation(op, point)[0][0], want, atol=1e-15)
        # Turning the end by a small angle about x turns the result by 0.3 of it.
        step = hamilton(np.array([0.5, 0.0, 0.0, 0.0]), end)
        slope = hamilton(np.array([0.15, 0.0, 0.0, 0.0]), want)
        grads = [pull(op, point, [1], [row[None]], False)[0][0] for row in np.eye(4)]
        np.testing.assert_allclose(np.stack(grads) @ step, slope, atol=1e-13)


@kc.kernel
def operators(m: M33D, v: V3D, a: QUATD, b: QUATD, column: V3D, row: V3D, q: QUATD, low: F64):
    i = kc.tid()
    column[i] = m[i] @ m[i] * v[i]
    row[i] = v[i] * m[i]
    q[i] = a[i] * b[i]
    low[i] = smallest(v[i]) + min(v[i])


def test_operators_are_products_of_the_library() -> None:
    rng = np.random.default_rng(3)
    m, v, a, b = (rng.standard_normal((2, *s)) for s in ((3, 3), (3,), (4,), (4,)))
    op = kernel_operation(operators, ["column", "row", "q", "low"])
    column, row, q, low = run_operation(op, [m, v, a, b])
    for i in range(2):
        np.testing.assert_allclose(column[i], m[i] @ m[i] @ v[i], rtol=1e-13)
        np.testing.assert_allclose(row[i], v[i] @ m[i], rtol=1e-13)
        np.testing.assert_allclose(q[i], hamilton(a[i], b[i]), rtol=1e-13)
        assert low[i] == 2.0 * v[i].min()


@kc.kernel
def literals(v: V3D, a: QUATD, b: QUATD, loss: F64, q: QUATD):
    i = kc.tid()
    loss[i] = norm_huber(v[i]) + norm_huber(v[i], 0.1)
    q[i] = quat_slerp(a[i], b[i], 0.3)


def test_literals_take_the_type_of_the_other_arguments() -> None:
    v, a, b = np.array([[0.3, -0.4, 1.2]]), about(2, 0.2)[None], about(2, 1.2)[None]
    loss, q = run_operation(kernel_operation(literals, ["loss", "q"]), [v, a, b])
    np.testing.assert_allclose(loss[0], 1.3 - 0.5 + 0.1 * (1.3 - 0.05), rtol=1e-15)
    np.testing.assert_allclose(q[0], about(2, 0.5), rtol=1e-15)


@kc.kernel
def euler_round_trip(q: QUATD, axes: kc.array2d(dtype=int), back: QUATD):
    i = kc.tid()
    a, b, c = axes[i, 0], axes[i, 1], axes[i, 2]
    back[i] = quat_from_euler(quat_to_euler(q[i], a, b, c), a, b, c)


def test_axes_of_euler_angles_may_be_known_at_run_time_only() -> None:
    axes = np.array([*itertools.permutations(range(3))], np.int32)
    q = np.stack([hamilton(about(0, 0.3 * k), about(1, -0.5)) for k in range(len(axes))])
    op = kernel_operation(euler_round_trip, ["back"])
    (back,) = run_operation(op, [q, axes])
    np.testing.assert_allclose(np.abs(np.sum(back * q, axis=1)), 1.0, rtol=1e-14)


@kc.kernel
def half_directions(
    v: kc.array(dtype=composite_types.vec3h), u: kc.array(dtype=composite_types.vec3h)
):
    i = kc.tid()
    u[i] = normalize(v[i])


def test_half_precision_is_taken() -> None:
    v = np.array([[0.5, -2.0, 1.0], [0.0, 0.0, 0.0]], np.float16)
    (u,) = run_operation(kernel_operation(half_directions, ["u"]), [v])
    want = v[0].astype(float) / np.linalg.norm(v[0].astype(float))
    np.testing.assert_allclose(u[0].astype(float), want, rtol=2e-3)
    assert np.all(u[1] == 0.0)


def test_slerp_takes_the_shorter_arc() -> None:
    a, b = composite_types.quatd(*about(2, 0.2)), composite_types.quatd(*about(2, 1.0))
    one, other = quat_slerp(a, b, 0.5), quat_slerp(a, -b, 0.5)
    np.testing.assert_allclose(one, about(2, 0.6), atol=1e-15)
    np.testing.assert_allclose(other, about(2, 0.6), atol=1e-15)


def test_a_reflection_is_a_negative_scale() -> None:
    p, q = composite_types.vec3d(1, 2, 3), composite_types.quatd(*about(1, 0.7))
    m = transform_compose(p, q, composite_types.vec3d(2.0, -3.0, 4.0))
    position, rotation, scale = transform_decompose(m)
    assert position == p
    again = transform_compose(position, rotation, scale)
    np.testing.assert_allclose(again, m, atol=1e-14)
    assert scale[0] < 0.0


def test_a_transform_of_the_host_is_updated_in_place() -> None:
    t = transform_identity()
    transform_set_translation(t, composite_types.vec3(1, 2, 3))
    assert t.p == composite_types.vec3(1, 2, 3)


def test_functions_of_pythons_numbers_make_composites_of_float32() -> None:
    turned = kc.quat_rpy(0.1, 0.2, 0.3)
    assert isinstance(turned, kc.quat)
    exact = np.asarray(kc.quat_rpy(*map(np.float64, (0.1, 0.2, 0.3))))
    assert exact.dtype == np.float64
    assert np.asarray(turned).tolist() == exact.astype(np.float32).tolist()
    assert isinstance(kc.sin(0.5), np.float64)
