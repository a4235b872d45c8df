"""Jacobians of kernels against closed forms, and what a check of derivatives reports."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.autograd.gradcheck import gradcheck
from kernelcore.autograd.jacobian import jacobian, jacobian_fd

F64 = kc.array(dtype=kc.float64)


@kc.kernel
def mix(x: F64, w: F64, scale: kc.float64, y: F64, z: F64):
    i = kc.tid()
    y[i] = scale * x[i] * x[i]
    kc.atomic_add(z, 0, w[i] * x[i])


X, W = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])


def outputs() -> list[np.ndarray]:
    return [np.zeros(3), np.zeros(1)]


EXPECTED = {
    ("x", "y"): np.diag(4 * X),
    ("w", "y"): np.zeros((3, 3)),
    ("scale", "y"): (X * X).reshape(3, 1),
    ("x", "z"): W.reshape(1, 3),
    ("w", "z"): X.reshape(1, 3),
    ("scale", "z"): np.zeros((1, 1)),
}


def test_jacobians_are_those_of_the_closed_form() -> None:
    for found, rtol in (
        (jacobian(mix, 3, [X, W, 2.0], outputs()), 1e-14),
        (jacobian_fd(mix, 3, [X, W, 2.0], outputs()), 1e-8),
    ):
        assert found.keys() == EXPECTED.keys()
        for key, want in EXPECTED.items():
            np.testing.assert_allclose(found[key], want, rtol=rtol, atol=rtol)
    assert gradcheck(mix, 3, [X, W, 2.0], outputs(), atol=1e-7, rtol=1e-7)


@kc.kernel
def squared_in_place(x: kc.array(dtype=kc.vec3d), v: kc.vec3d, y: F64):
    i = kc.tid()
    y[i] = y[i] * y[i] * kc.dot(x[i], v)


@kc.kernel
def rounded(x: F64, y: F64):
    i = kc.tid()
    y[i] = kc.floor(x[i]) * x[i]


def test_forward_mode_agrees_with_the_adjoint_and_with_differences() -> None:
    close: Any = {"atol": 1e-7, "rtol": 1e-7, "forward": True}
    assert gradcheck(mix, 3, [X, W, 2.0], outputs(), **close)
    points, y = np.arange(6.0).reshape(2, 3), np.array([2.0, 3.0])
    assert gradcheck(squared_in_place, 2, [points, kc.vec3d(1.0, 2.0, 3.0), y], **close)
    assert gradcheck(mix, 3, [X, W, 2.0], outputs(), pairs=[("w", "z")], **close)
    assert gradcheck(rounded, 2, [np.array([0.5, 2.5])], [np.zeros(2)], **close)


def test_a_wrong_forward_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("kernelcore.autograd.jacobian")
    right = module.push_tangents

    def wrong(kernel: Any, dim: Any, primals: Any, given: dict[int, Any]) -> Any:
        found = right(kernel, dim, primals, given)
        for tangent in found:
            tangent[...] *= 3.0
        return found

    monkeypatch.setattr(module, "push_tangents", wrong)
    with pytest.raises(kc.KernelGradError, match=r"forward mode and central diff.* forward .*num"):
        gradcheck(mix, 3, [X, W, 2.0], outputs(), forward=True)
    assert not gradcheck(mix, 3, [X, W, 2.0], outputs(), forward=True, raise_exception=False)


def test_pairs_select_and_arguments_stay() -> None:
    out = outputs()
    found = jacobian(mix, 3, [X, W, 2.0], out, pairs=[("w", "z")])
    assert list(found) == [("w", "z")]
    assert all(not a.any() for a in out)
    with pytest.raises(kc.KernelArgumentError, match=r"\('y', 'x'\) is no pair") as error:
        jacobian(mix, 3, [X, W, 2.0], out, pairs=[("y", "x")])
    assert "the inputs are x, w, scale, the outputs y, z" in str(error.value)


@kc.func
def wrong(x: kc.float64):
    return x * x


@kc.func_grad(wrong)
def wrong_grad(x: kc.float64, adj_ret: kc.float64):
    kc.adjoint[x] += 3.0 * x * adj_ret if x > 1.5 else 2.0 * x * adj_ret


@kc.kernel
def with_wrong_rule(m: kc.array2d(dtype=kc.float64), y: F64):
    i = kc.tid()
    y[i] = wrong(m[i, 1]) + m[i, 0]


def test_a_wrong_rule_is_found_and_its_worst_entry_named() -> None:
    m, y = np.array([[0.0, 1.0], [0.0, 3.0], [0.0, 2.0]]), np.zeros(3)
    assert not gradcheck(with_wrong_rule, 3, [m], [y], raise_exception=False)
    with pytest.raises(kc.KernelGradError) as error:
        gradcheck(with_wrong_rule, 3, [m], [y])
    text = error.value.message
    assert "disagree in 2 of 18 entries" in text
    assert "the derivative of y[1] with respect to m[1, 1]: analytic 9, numeric 6" in text
    assert error.value.remedy
    assert error.value.loc is not None


def test_not_a_number_is_wrong() -> None:
    @kc.kernel
    def root(x: F64, y: F64):
        i = kc.tid()
        y[i] = kc.sqrt(x[i])

    assert gradcheck(root, 1, [np.array([2.0])], [np.zeros(1)])
    assert not gradcheck(root, 1, [np.array([-2.0])], [np.zeros(1)], raise_exception=False)


def test_arrays_that_are_updated_in_place_are_inputs_and_outputs() -> None:
    @kc.kernel
    def square(x: F64):
        i = kc.tid()
        x[i] = x[i] * x[i]

    assert gradcheck(square, 3, [X], atol=1e-7, rtol=1e-7)
    np.testing.assert_allclose(jacobian(square, 3, [X])["x", "x"], np.diag(2 * X))


@kc.struct
class Body:
    position: kc.vec3d
    count: int
    mass: kc.float64


@kc.kernel
def energy(bodies: kc.array(dtype=Body), g: kc.vec3d, one: Body, turn: kc.mat22d, out: F64):
    i = kc.tid()
    b = bodies[i]
    v = turn * kc.vec2d(b.mass, one.mass)
    out[i] = b.mass * kc.dot(b.position, g) + v[0] * v[1] + one.position.y * b.position.x


def test_composites_structs_and_values_have_entries_per_component() -> None:
    rng = np.random.default_rng(0)
    bodies: Any = np.zeros(2, Body.numpy_dtype())
    bodies["position"], bodies["mass"] = rng.random((2, 3)), rng.random(2)
    one = Body()
    one.position, one.mass = kc.vec3d(1.0, 2.0, 3.0), 0.5
    args: list[Any] = [bodies, kc.vec3d(0.1, 0.2, 0.3), one, kc.mat22d(1.0, 2.0, 3.0, 4.0)]
    found = jacobian(energy, 2, args, [np.zeros(2)])
    assert set(found) == {
        (name, "out")
        for name in ("bodies.position", "bodies.mass", "g", "one.position", "one.mass", "turn")
    }
    weighted = bodies["mass"][:, None] * bodies["position"]
    np.testing.assert_allclose(found["g", "out"], weighted)
    np.testing.assert_allclose(found["one.position", "out"][:, 1], bodies["position"][:, 0])
    assert gradcheck(energy, 2, args, [np.zeros(2)], atol=1e-7, rtol=1e-7)


def test_float32_is_checked_with_the_defaults() -> None:
    @kc.kernel
    def wave(x: kc.array(dtype=float), y: kc.array(dtype=float)):
        i = kc.tid()
        y[i] = kc.sin(3.0 * x[i]) * x[i]

    x = np.linspace(-2, 2, 7, dtype=np.float32)
    assert gradcheck(wave, 7, [x], [np.zeros(7, np.float32)])
    with pytest.raises(kc.KernelArgumentError, match="does not change x"):
        jacobian_fd(wave, 7, [x], [np.zeros(7, np.float32)], eps=1e-12)


def test_arrays_of_every_kind_are_arguments() -> None:
    @kc.kernel
    def weigh(v: kc.array(dtype=kc.vec3d), w: kc.indexedarray(dtype=kc.float64), y: F64):
        i = kc.tid()
        y[i] = kc.length(v[i]) * w[i]

    rows = np.array([[1.0, 2.0, 2.0], [3.0, 4.0, 5.0]])
    table = kc.indexedarray(np.arange(5.0), [np.array([3, 1], np.int32)])
    for v in (rows, rows[::-1][::-1], kc.array(rows, dtype=kc.vec3d)):
        y = kc.zeros(2, dtype=kc.float64)
        found = jacobian(weigh, 2, [v, table], [y])
        np.testing.assert_allclose(found["v", "y"][0, :3], 3.0 * rows[0] / 3.0)
        np.testing.assert_allclose(found["w", "y"][0], [0, 0, 0, 3.0, 0])
        assert gradcheck(weigh, 2, [v, table], [y], atol=1e-7, rtol=1e-7)


def test_kernels_are_expected() -> None:
    with pytest.raises(kc.KernelArgumentError, match="expected a kernel"):
        gradcheck(np.sin, 3)  # pyright: ignore[reportArgumentType]


@kc.func
def half(x: kc.float64) -> kc.float64:
    return 0.5 * x


@kc.func_grad(half)
def _half_gradient(x: kc.float64, ct: kc.float64):
    kc.adjoint[x] += 0.25 * ct


@kc.kernel
def halved(x: F64, y: F64):
    i = kc.tid()
    y[i] = half(x[i])


def test_every_launch_of_a_tape_is_checked() -> None:
    x, w = (kc.array(a, requires_grad=True) for a in (X, W))
    y, z = kc.zeros(3, dtype=kc.float64, requires_grad=True), kc.zeros(1, dtype=kc.float64)
    z.requires_grad = True
    with kc.Tape() as tape:
        kc.launch(mix, 3, [x, w, 2.0], [y, z])
        tape.record_func(lambda: None, [z])
    before = y.numpy().copy()
    assert kc.gradcheck_tape(tape, atol=1e-7, rtol=1e-7)
    assert np.array_equal(y.numpy(), before)
    with tape:
        kc.launch(halved, 3, [y], [kc.zeros(3, dtype=kc.float64, requires_grad=True)])
    assert not kc.gradcheck_tape(tape, raise_exception=False)
    with pytest.raises(kc.KernelGradError, match=r"halved\(\): the adjoint and central"):
        kc.gradcheck_tape(tape)
