"""The parts of the language that programs written for Warp use, in every mode, with derivatives."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: basic

from __future__ import annotations

import pickle
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore import sin, vec3
from tests.helpers.language import run_both

RNG = np.random.default_rng(24)
A1 = kc.array(dtype=kc.float64)


def agree(kernel: kc.Kernel, dim: int | Sequence[int], args: Sequence[Any]) -> list[Any]:
    """``args`` after a launch; the interpreter and Python mode give the same."""
    found = run_both(kernel, dim, args)
    python = deepcopy(list(args))
    with kc.python_mode():
        kc.launch(kernel, dim, python)
    for one, other in zip(found, python, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
    return found


def test_constants_and_types_have_the_names_of_the_language() -> None:
    @kc.kernel
    def kernel(out: A1):
        out[0] = kc.pi + kc.PI - kc.tau
        out[1] = kc.HALF_PI - kc.pi / 2.0 + kc.half_pi
        out[2] = kc.e * kc.ln2 + kc.LN10 - kc.log2e + kc.LOG10E + kc.phi
        if kc.isnan(kc.nan) and kc.isinf(-kc.INF):
            out[3] = kc.float64(kc.float(kc.int(2.75)))
        v = vec3(1.0, 2.0, 3.0)
        out[4] = kc.float64(sin(v.y))

    (out,) = agree(kernel, 1, [np.zeros(5)])
    want = np.e * np.log(2) + np.log(10) - np.log2(np.e) + np.log10(np.e) + (1 + 5**0.5) / 2
    np.testing.assert_allclose(out, [0.0, np.pi / 2, want, 2.0, np.sin(np.float32(2))], 1e-7, 0)
    assert (kc.int, kc.float) == (kc.int32, kc.float32)


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


def test_random_states_advance_in_python_mode() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=float), s: kc.array(dtype=kc.uint32)):
        i = kc.tid()
        state = kc.rand_init(7, i)
        for _ in range(3):
            x[i] += kc.randf(state) + kc.randn(state)
        s[i] = state
        x[i] += kc.randf(s[i])

    agree(kernel, 5, [np.zeros(5, np.float32), np.zeros(5, np.uint32)])


def test_a_variable_that_a_call_assigns_keeps_its_type() -> None:
    @kc.kernel
    def kernel(m: kc.array(dtype=kc.mat33d)):
        q, d = kc.mat33d(), kc.vec3()
        kc.eig3(m[0], q, d)

    with pytest.raises(kc.KernelTypeError, match="vec3d"):
        _ = kernel.func


def test_options_of_kernels_are_kept_and_unknown_ones_are_refused() -> None:
    @kc.kernel(enable_backward=False, module="unique", module_options={"fast_math": False})
    def kernel(x: kc.array(dtype=float), y: kc.array(dtype=float)):
        i = kc.tid()
        y[i] = x[i] * x[i]

    assert kernel.options["enable_backward"] is False
    assert kernel.key.endswith("unknown_ones_are_refused__locals__kernel")
    assert kernel.module is not None
    assert kernel.module.__name__ == __name__
    kc.gradcheck(kernel, 3, [np.ones(3, np.float32)], [np.zeros(3, np.float32)])
    named = kc.kernel(name="square")(kernel.pyfunc)
    assert (named.key, named.name) == ("square", "kernel")
    by_hand = kc.Kernel(func=kernel.pyfunc, key="by_hand")
    out = np.zeros(2, np.float32)
    kc.launch(by_hand, 2, [np.full(2, 3.0, np.float32)], [out])
    assert by_hand.key == pickle.loads(pickle.dumps(by_hand)).key == "by_hand"
    np.testing.assert_array_equal(out, 9.0)
    with pytest.raises(kc.KernelArgumentError, match="unknown option 'enable_backwards'"):
        kc.kernel(enable_backwards=False)
    with pytest.raises(kc.KernelArgumentError, match="fast_math: expected False"):
        kc.kernel(module_options={"fast_math": True})
    with pytest.raises(kc.KernelTypeError, match="takes a function"):
        kc.Kernel(func=3)


def test_overload_decorates_a_function_without_a_body() -> None:
    @kc.kernel
    def scale(x: kc.array(dtype=Any), factor: Any):
        i = kc.tid()
        x[i] *= factor

    generic = scale

    @kc.overload
    def scale(x: kc.array(dtype=kc.float64), factor: kc.float64): ...

    assert scale is generic
    assert len(scale.overloads) == 1
    one = scale.add_overload([kc.array(dtype=float), float])
    assert len(scale.overloads) == 2
    x = np.ones(3, np.float32)
    kc.launch(one, 3, [x, 2.0])
    np.testing.assert_array_equal(x, 2.0)
    with pytest.raises(kc.KernelSyntaxError, match="'scale' has a body"):

        @kc.overload
        def scale(x: kc.array(dtype=kc.float64), factor: kc.float64):
            x[0] = factor

    with pytest.raises(kc.KernelArgumentError, match="no kernel 'other' above"):

        @kc.overload
        def other(x: kc.array(dtype=kc.float64)): ...
