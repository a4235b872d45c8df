"""Gradients of parameters that are values, of every kind."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import kernelcore as kc
from tests.helpers.value_programs import (
    SHAPES,
    SIZE,
    TURNS,
    Outer,
    arguments,
    every_value,
    gradients,
    values,
)

KINDS = {"s": kc.float64, "v": kc.vec3d, "m": kc.mat33d, "q": kc.quatd, "t": kc.transformd}


@kc.kernel
def scaled(x: kc.array(dtype=kc.float64), s: kc.float64, y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = kc.sin(s * x[i])


@kc.kernel
def total(x: kc.array(dtype=kc.float64), s: kc.array(dtype=kc.float64)):
    kc.atomic_add(s, 0, x[kc.tid()])


def test_values_of_every_kind_have_exact_derivatives() -> None:
    given = arguments(values())
    assert kc.gradcheck(every_value, SIZE, given, [np.zeros(SIZE)], atol=1e-7, rtol=1e-7)


def test_a_launch_adds_to_the_cotangents_of_values() -> None:
    given, ct = values(), np.random.default_rng(1).random(SIZE)
    plain = {name: np.ones(np.shape(given[name])) for name in ("x", "s", "v", "m", "q", "t")}
    fields = {n: np.ones(s) for n, s in SHAPES.items() if n.startswith("o.")}
    of_struct = {
        "inner": {"offset": fields["o.inner.offset"], "gain": fields["o.inner.gain"]},
        "frame": fields["o.frame"],
    }
    adj_inputs = [*plain.values(), of_struct]
    y = np.zeros(SIZE)
    kc.launch(every_value, SIZE, arguments(given), [y], adj_inputs, [ct], adjoint=True)
    expected = gradients(given, ct)
    for name, found in {**plain, **fields}.items():
        np.testing.assert_allclose(found, 1 + expected[name], rtol=1e-12)


def marked(value: object, dtype: object) -> kc.Array:
    return kc.array(value, dtype=dtype, requires_grad=True)


def element(dtype: object) -> kc.Array:
    """An array without dimensions that has a gradient."""
    return kc.zeros((), dtype=dtype, requires_grad=True)


def test_a_tape_gives_gradients_to_arrays_that_stand_for_values() -> None:
    given, ct = values(), np.random.default_rng(1).random(SIZE)
    x, y = marked(given["x"], kc.float64), marked(np.zeros(SIZE), kc.float64)
    plain = {name: element(dtype) for name, dtype in KINDS.items()}
    for name, array in plain.items():
        array.numpy()[...] = given[name]
    struct = element(Outer)
    data = struct.numpy()
    data["inner"]["offset"], data["inner"]["gain"] = given["o.inner.offset"], given["o.inner.gain"]
    data["turns"], data["frame"] = TURNS, given["o.frame"]
    with kc.Tape() as tape:
        kc.launch(every_value, SIZE, [x, *plain.values(), struct], [y])
    # The values of the launch count, not those that the arrays have afterwards.
    plain["s"].assign(77.0)
    tape.backward(grads={y: ct})
    expected = gradients(given, ct)
    for name, array in {"x": x, **plain}.items():
        assert array.grad is not None
        np.testing.assert_allclose(array.grad.numpy(), expected[name], rtol=1e-12)
    assert struct.grad is not None
    found = struct.grad.numpy()
    np.testing.assert_allclose(found["inner"]["offset"], expected["o.inner.offset"], rtol=1e-12)
    np.testing.assert_allclose(found["inner"]["gain"], expected["o.inner.gain"], rtol=1e-12)
    np.testing.assert_allclose(found["frame"], expected["o.frame"], rtol=1e-12)


def test_a_gradient_flows_through_a_value_that_a_launch_computed() -> None:
    start = np.array([0.3, 0.4, 0.5])
    x, s, y = (marked(a, kc.float64) for a in (start, np.zeros(1), np.zeros(3)))
    with kc.Tape() as tape:
        kc.launch(total, 3, [x], [s])
        kc.launch(scaled, 3, [x, s.reshape(())], [y])
    tape.backward(grads={y: np.ones(3)})
    sum_, cosines = start.sum(), np.cos(start.sum() * start)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), sum_ * cosines + (start * cosines).sum())


def test_a_value_without_gradient_that_was_computed_from_one_is_refused() -> None:
    x, y = marked(np.ones(3), kc.float64), marked(np.zeros(3), kc.float64)
    s = kc.zeros(1, dtype=kc.float64)
    with kc.Tape():
        kc.launch(total, 3, [x], [s])
        with pytest.raises(kc.KernelGradError, match="would miss what flows through 's'"):
            kc.launch(scaled, 3, [x, s.reshape(())], [y])


def test_arrays_that_stand_for_values_need_no_tape_but_no_dimensions() -> None:
    y = np.zeros(3)
    kc.launch(scaled, 3, [np.ones(3), kc.array(0.5, dtype=kc.float32)], [y])
    np.testing.assert_allclose(y, np.sin(0.5))
    one = kc.ones(1, dtype=kc.float64)
    with pytest.raises(kc.KernelArgumentError, match="expected a float64 value, found Array"):
        kc.launch(scaled, 3, [np.ones(3), one], [y])


def test_a_value_with_a_gradient_is_of_the_declared_type() -> None:
    x, y = marked(np.ones(3), kc.float64), marked(np.zeros(3), kc.float64)
    text = re.escape("expected a float64 value, found an array of float32 with a gradient")
    with kc.Tape(), pytest.raises(kc.KernelArgumentError, match=text):
        kc.launch(scaled, 3, [x, marked(0.5, kc.float32)], [y])


def test_a_tensor_of_torch_that_requires_a_gradient_is_refused_as_a_value() -> None:
    x, y = marked(np.ones(3), kc.float64), marked(np.zeros(3), kc.float64)
    with kc.Tape(), pytest.raises(kc.KernelArgumentError, match="no gradients of a Tensor"):
        kc.launch(scaled, 3, [x, torch.tensor(0.5, requires_grad=True)], [y])
