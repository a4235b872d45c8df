"""Values of programs written for Warp: composites of parts, structs, names that may be unset."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: basic

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.language import agree

RNG = np.random.default_rng(24)
A1 = kc.array(dtype=kc.float64)


def test_a_variable_that_a_call_assigns_keeps_its_type() -> None:
    @kc.kernel
    def kernel(m: kc.array(dtype=kc.mat33d)):
        q, d = kc.mat33d(), kc.vec3()
        kc.eig3(m[0], q, d)

    with pytest.raises(kc.KernelTypeError, match="vec3d"):
        _ = kernel.func


def test_decompositions_assign_their_arguments() -> None:
    @kc.kernel
    def kernel(m: kc.array(dtype=kc.mat33d), out: kc.array(dtype=kc.float64, ndim=2)):
        i = kc.tid()
        u, s, v = kc.mat33d(), kc.vec3d(), kc.mat33d()
        kc.svd3(m[i], u, s, v)
        q, d = kc.mat33d(), kc.vec3d()
        kc.eig3(m[i] + kc.transpose(m[i]), q, d)
        r = kc.mat33d()
        kc.qr3(m[i], q, r)
        axis, angle = kc.vec3d(), kc.float64(0.0)
        kc.quat_to_axis_angle(kc.quatd(m[i][0, 0], m[i][0, 1], m[i][0, 2], m[i][1, 1]), axis, angle)
        for k in range(3):
            out[i, k] = s[k] + d[k] + r[k, k] * r[k, k] + axis[k] * angle

    @kc.kernel
    def returned(m: kc.array(dtype=kc.mat33d), out: kc.array(dtype=kc.float64, ndim=2)):
        i = kc.tid()
        _u, s, _v = kc.svd3(m[i])
        _q, d = kc.eig3(m[i] + kc.transpose(m[i]))
        _q, r = kc.qr3(m[i])
        axis, angle = kc.quat_to_axis_angle(
            kc.quatd(m[i][0, 0], m[i][0, 1], m[i][0, 2], m[i][1, 1])
        )
        for k in range(3):
            out[i, k] = s[k] + d[k] + r[k, k] * r[k, k] + axis[k] * angle

    m = RNG.normal(size=(4, 3, 3))
    found = agree(kernel, 4, [m, np.zeros((4, 3))])[1]
    np.testing.assert_array_equal(found, agree(returned, 4, [m, np.zeros((4, 3))])[1])
    kc.gradcheck(kernel, 4, [m], [np.zeros((4, 3))])


def test_composites_are_made_of_their_parts() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.vec3d), out: kc.array(dtype=kc.vec3d)):
        i = kc.tid()
        turn = kc.types.quaternion(x[i] * 0.1, kc.float64(0.9))
        t = kc.transformd(p=x[i], q=kc.normalize(turn))
        out[i] = kc.transform_point(t, x[i]) + kc.transformd(p=x[i]).p
        out[i] += kc.types.vector(3, dtype=kc.float64)(2.0) + kc.transformd(q=turn).q[:3]
        out[i] += kc.vec3d(kc.types.vector(kc.vec3(x[i]), dtype=kc.float16))
        m = kc.types.matrix(kc.mat33(2.0), shape=(3, 3), dtype=kc.float64)
        pose = kc.types.transformation(x[i], turn, dtype=kc.float64)
        out[i] += m * pose.p

    x = RNG.normal(size=(4, 3)).astype(np.float16).astype(np.float64)
    _, out = agree(kernel, 4, [x, np.zeros((4, 3))])
    for row, found in zip(x, out, strict=True):
        turn = kc.quatd(kc.vec3d(row) * 0.1, 0.9)
        t = kc.transformd(p=kc.vec3d(row), q=kc.normalize(turn))
        want = np.array(kc.transform_point(t, kc.vec3d(row))) + 3 * row / 1 - row + 2.0
        want += row * 0.1 + 2 * row.sum()
        np.testing.assert_allclose(found, want, 1e-12, 1e-12)


def test_composites_on_the_host_are_made_of_sequences_and_parts() -> None:
    assert kc.mat22([1, 2, 3, 4]) == kc.mat22(1.0, 2.0, 3.0, 4.0)
    assert kc.transform(q=kc.quat(1.0, 0.0, 0.0, 0.0)).p == kc.vec3()
    assert kc.transform(p=(1, 2, 3)) == kc.transform(1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0)
    assert kc.transform(kc.vec3(1.0), q=(1, 0, 0, 0)) == kc.transform(
        p=kc.vec3(1.0), q=(1, 0, 0, 0)
    )
    assert kc.types.vector(kc.vec3(1.5), dtype=kc.float64) == kc.vec3d(1.5)
    assert kc.types.vector(kc.vec3d(1.5)) == kc.vec3d(1.5)
    assert kc.types.matrix(kc.mat22(2.0), dtype=kc.float64) == kc.mat22d(2.0)
    with pytest.raises(kc.KernelTypeError, match="mat22"):
        kc.mat22([1, 2, 3])
    with pytest.raises(kc.KernelTypeError, match="expected 3 components"):
        kc.transform(p=(1, 2))


def test_host_vectors_have_the_operators_of_kernels() -> None:
    @kc.kernel
    def kernel(a: kc.array(dtype=kc.vec3), b: kc.vec3, n: kc.vec3i, m: kc.array(dtype=kc.vec3i)):
        a[0] = b % kc.vec3(2.0, -1.5, 0.5)
        a[1] = b // kc.vec3(2.0, -1.5, 0.5)
        a[2] = b ** kc.vec3(2.0, 0.5, -1.0)
        a[3] = b**2.5
        m[0] = n % kc.vec3i(2, -3, 0)
        m[1] = n // 2

    b, n = kc.vec3(5.5, 6.25, 7.0), kc.vec3i(-5, 7, 3)
    a, m = np.zeros((4, 3), np.float32), np.zeros((2, 3), np.int32)
    kc.launch(kernel, 1, [a, b, n, m])
    other = kc.vec3(2.0, -1.5, 0.5)
    want = [b % other, b // other, b ** kc.vec3(2.0, 0.5, -1.0), b**2.5]
    np.testing.assert_array_equal(a, want)
    np.testing.assert_array_equal(m, [n % kc.vec3i(2, -3, 0), n // 2])
    assert 7.0 % kc.vec3(2.0) == kc.vec3(1.0)
    with pytest.raises(kc.KernelError):
        _ = b % "text"
