"""Adjacent elements under a mask, where the processor has no instruction for them."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS, Host
from kernelcore.codegen.llvm.kernel import emit_kernel
from kernelcore.codegen.simd.strategy import LANES, Form
from kernelcore.ir.core import Func
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import agree

F32_2D, F64_2D = kc.array(kc.float32, 2), kc.array(kc.float64, 2)
F16, I8, BOOLS, VEC3 = (kc.array(t, 1) for t in (kc.float16, kc.int8, kc.bool, kc.vec3))
# Rows of no whole gang, and of one with and without points beside it.
WIDTHS_BESIDE_GANGS = (-1, 0, 1, 5)


@kc.kernel
def mixed(x: F32_2D, wide: F64_2D, half: F16, small: I8, flags: BOOLS, moved: VEC3, y: F32_2D):
    i, j = kc.tid()
    total = y[i, j]
    for k in range(3):
        if x[i, j] > kc.float32(k) - 1.0:
            total += x[i, j] * kc.float32(half[j]) + kc.float32(k)
            wide[i, j] += kc.float64(total)
    if flags[j]:
        y[i, j] = total
        if i == 0:
            half[j] = half[j] * kc.float16(0.5)
            small[j] = small[j] + kc.int8(3)
            flags[j] = x[i, j] > 0.0
            moved[j] = kc.vec3(total, moved[j][0], x[i, j])


def arguments(width: int) -> list[np.ndarray]:
    rng = np.random.default_rng(width)
    shapes = ((1, width), (1, width), (width,), (width,), (width,), (width, 3), (1, width))
    types = (np.float32, np.float64, np.float16, np.int8, np.bool_, np.float32, np.float32)
    values = [rng.integers(-2, 4, s).astype(t) for s, t in zip(shapes, types, strict=True)]
    values[4] = rng.random(width) < 0.5
    return values


def text_of(func: Func, least_masked_bytes: int) -> str:
    return emit_kernel(func, "k", None, Form(16, least_masked_bytes=least_masked_bytes))


@pytest.mark.parametrize("lanes", LANES[1:])
@pytest.mark.parametrize("least_masked_bytes", [1, 4, NO_MASKS])
def test_bits_are_those_of_masks(lanes: int, least_masked_bytes: int) -> None:
    func = optimize(mixed.func)
    for beside in WIDTHS_BESIDE_GANGS:
        width = lanes + beside
        for chunks in (None, [(0, width // 3), (width // 3, width)]):
            agree(
                func,
                arguments(width),
                (1, width),
                chunks,
                lanes,
                least_masked_bytes=least_masked_bytes,
            )


def test_one_function_copies_elements_of_a_type() -> None:
    func = optimize(mixed.func)
    assert "copy_active" not in text_of(func, 1)
    # AVX has masks for float32 and float64.
    some, text = text_of(func, 4), text_of(func, NO_MASKS)
    assert "@llvm.masked.load.v16f32" in some
    assert "@llvm.masked.load.v16f64" in some
    assert some.count("define internal void @kc.copy_active.") == 2
    assert "@llvm.masked" not in text
    assert text.count("define internal void @kc.copy_active.") == 4
    assert text.count("call void @kc.copy_active.float(") > 1


@pytest.mark.parametrize(
    ("features", "least_masked_bytes"),
    [
        ("+sse2,-avx,-avx512bw", NO_MASKS),
        ("+sse2,+avx,-avx512f", 4),
        ("+avx,+avx512f,-avx512bw", 4),
        ("+avx,+avx512f,+avx512bw", 1),
        ("+neon", NO_MASKS),
    ],
)
def test_what_processors_access_under_masks(features: str, least_masked_bytes: int) -> None:
    assert Host("any", "any", features, (22,)).least_masked_bytes == least_masked_bytes
