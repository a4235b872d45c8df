"""Elements of several components in gangs = the interpreter, bit for bit, whatever the element."""

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.simd.cost_model import best_lanes
from kernelcore.codegen.simd.interleaved import register_lanes
from kernelcore.codegen.simd.strategy import FLOAT_LANES_OF_SUMS
from kernelcore.language.composite_types import vector
from kernelcore.language.types import Scalar
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import agree

# Two gangs of the largest size, and ends that are none.
SIZE = 150
F32, VEC3 = kc.array(kc.float32, 1), kc.array(kc.vec3, 1)


def reversing(element: Any) -> kc.Kernel:
    """Adds the components of one array to those of another in reverse order, and swaps both."""

    @kc.kernel
    def reversing(x: kc.array(dtype=element), y: kc.array(dtype=element)):
        i = kc.tid()
        v, w = x[i], y[i]
        for k in range(len(v)):
            w[k] += v[len(v) - 1 - k]
        x[i] = w
        y[i] = v

    return reversing


@pytest.mark.parametrize("lanes", [8, 64])
@pytest.mark.parametrize("count", [3, 5, 7])
@pytest.mark.parametrize("dtype", [kc.uint8, kc.float16, kc.float32, kc.float64], ids=str)
def test_components_keep_their_places(dtype: Scalar, count: int, lanes: int) -> None:
    kernel = reversing(vector(length=count, dtype=dtype))
    numbers = np.random.default_rng(count).integers(0, 100, (2, SIZE, count))
    x, y = agree(optimize(kernel.func), list(numbers.astype(dtype.numpy)), (SIZE,), None, lanes)
    assert np.array_equal(y, numbers[0])
    assert np.array_equal(x, numbers[1] + numbers[0][:, ::-1])


def test_registers_have_no_divisor_in_common_with_the_components() -> None:
    assert register_lanes(64, 3, kc.float32) == 16
    assert register_lanes(8, 3, kc.float32) == 8
    assert register_lanes(64, 9, kc.float64) == 8
    assert register_lanes(64, 1, kc.float32) is None
    assert register_lanes(64, 6, kc.float32) is None


@kc.kernel
def sums(x: F32, y: F32):
    i = kc.tid()
    y[i] += 0.5 * x[i]


@kc.kernel
def waves(x: F32, y: F32):
    i = kc.tid()
    y[i] = kc.sin(x[i]) * kc.exp(-x[i])


@kc.kernel
def layer(x: F32, y: F32):
    i = kc.tid()
    total = 0.0
    for k in range(x.shape[0]):
        total += kc.tanh(x[k] * x[i])
    y[i] = total


@kc.kernel
def directions(x: VEC3, y: VEC3):
    i = kc.tid()
    y[i] = kc.normalize(x[i])


@kc.kernel
def sums_of_vectors(x: VEC3, y: VEC3):
    i = kc.tid()
    y[i] += 0.5 * x[i]


@pytest.mark.parametrize(
    ("kernel", "registers"),
    [(sums, 2), (waves, 4), (layer, 4), (directions, 2), (sums_of_vectors, 1)],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_values_that_wait_take_more_registers(kernel: kc.Kernel, registers: int) -> None:
    lanes = best_lanes(optimize(kernel.func), FLOAT_LANES_OF_SUMS)
    assert lanes == registers * FLOAT_LANES_OF_SUMS
