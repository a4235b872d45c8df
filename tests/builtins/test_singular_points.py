"""Second and third derivatives where a rule of the first one has a case of its own."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd.functional import hessian

import kernelcore as kc

F1 = kc.array(dtype=kc.float64)


@kc.op(outputs="z")
@kc.kernel
def power(x: F1, y: F1, z: F1):
    i = kc.tid()
    z[i] = x[i] ** y[i]


@kc.op(outputs="z")
@kc.kernel
def hypotenuse(x: F1, y: F1, z: F1):
    i = kc.tid()
    z[i] = kc.hypot(x[i], y[i])


@kc.op(outputs="z")
@kc.kernel
def length(v: kc.array(dtype=kc.vec3d), z: F1):
    i = kc.tid()
    z[i] = kc.length(v[i])


def at(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float64, requires_grad=True)


def slope(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    (found,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return found


@pytest.mark.parametrize("base", [0.25, 2.0, 1e90])
@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
def test_derivatives_of_powers_to_third_order(base: float, exponent: float) -> None:
    x, y = at(base), at(exponent)
    by_x, by_y = slope(power(x, y), x), slope(power(x, y), y)
    log, p = math.log(base), exponent
    mixed = base ** (p - 1) * (1 + p * log)
    assert slope(by_x, y).item() == pytest.approx(mixed, rel=1e-12)
    assert slope(by_y, x).item() == pytest.approx(mixed, rel=1e-12)
    assert slope(by_x, x).item() == pytest.approx(p * (p - 1) * base ** (p - 2), rel=1e-12)
    third = base ** (p - 2) * (2 * p - 1 + p * (p - 1) * log)
    assert slope(slope(by_x, x), y).item() == pytest.approx(third, rel=1e-12)


@pytest.mark.parametrize("base", [0.0, -0.0, 5e-324, math.inf, math.nan])
def test_nothing_to_the_power_of_zero_has_derivative_zero(base: float) -> None:
    x, y = at(base), at(0.0)
    assert slope(power(x, y), x).item() == 0.0


def test_derivatives_of_lengths_at_zero_are_zero() -> None:
    zero = torch.zeros(1, dtype=torch.float64)
    found = hessian(lambda x, y: hypotenuse(x, y).sum(), (zero, zero))
    assert [[part.item() for part in row] for row in found] == [[0.0, 0.0], [0.0, 0.0]]
    vector = torch.zeros(1, 3, dtype=torch.float64)
    assert not hessian(lambda v: length(v).sum(), vector).any()
