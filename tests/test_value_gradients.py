"""Gradients of parameters that are values, of every kind."""

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.value_programs import SHAPES, SIZE, arguments, every_value, gradients, values


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
