"""Code for arrays of any strides: short beside loops, and bit for bit that of single threads."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.simd.strategy import LANES, Form
from kernelcore.codegen.target import cpu
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import agree

VEC3, BOOLS = kc.array(kc.vec3, 1), kc.array(kc.bool, 1)
SIZE = 71


@kc.kernel
def attraction(x: VEC3, is_fixed: BOOLS, force: VEC3):
    i = kc.tid()
    here, total = x[i], kc.vec3(0.0, 0.0, 0.0)
    for j in range(8):
        d = x[j] - here
        r = kc.sqrt(kc.dot(d, d) + 0.25)
        total += d * (kc.exp(-r) / (r * r * r))
    if not is_fixed[i]:
        force[i] = total


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("step", [1, 2, -1])
def test_bits_are_those_of_single_threads(lanes: int, step: int) -> None:
    rng = np.random.default_rng(lanes)
    positions = rng.normal(size=(2 * SIZE, 3)).astype(np.float32)[::step][:SIZE]
    is_fixed = (rng.uniform(size=2 * SIZE) < 0.5)[::step][:SIZE]
    forces = np.ones((2 * SIZE, 3), np.float32)[::step][:SIZE]
    agree(optimize(attraction.func), [positions, is_fixed, forces], (SIZE,), None, lanes)


def test_an_access_is_a_call() -> None:
    text = cpu.llvm_text(optimize(attraction.func), form=Form(64))
    assert text.count("define internal <16 x float> @kc.load.float.v16") == 1
    assert text.count("call <16 x float> @kc.load.float.v16") == 3
    single = cpu.llvm_text(optimize(attraction.func), form=Form())
    assert "@kc.load" not in single
