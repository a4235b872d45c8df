"""Turns that begin before the last one ends: their bits are those of single threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen.simd.strategy import LANES, Form
from kernelcore.codegen.target import cpu
from kernelcore.language.types import ArrayType
from kernelcore.passes.pipeline import optimize
from tests.helpers.kernel_harness import agree

F16, F32, F64 = (kc.array(t, 1) for t in (kc.float16, kc.float32, kc.float64))
VEC3 = kc.array(kc.vec3, 1)
SIZE = 150
GANGS = [lanes for lanes in LANES if lanes > 1]
# What hides from LLVM that a turn ends with what it began with.
OVERLAPPED = 'asm ""'


@kc.kernel
def forces(x: VEC3, mass: F32, turns: int, f: VEC3):
    i = kc.tid()
    total = kc.vec3(0.0, 0.0, 0.0)
    for j in range(turns):
        d = x[j] - x[i]
        inv = 1.0 / kc.sqrt(kc.dot(d, d) + 0.01)
        total += d * (mass[j] * inv * inv * inv)
    f[i] = total


@kc.kernel
def halves(x: F16, turns: int, y: F16):
    i = kc.tid()
    total = kc.float16(0.0)
    for j in range(turns):
        d = x[i] - x[j]
        total += x[j] / kc.sqrt(d * d + kc.float16(1.0))
    y[i] = total


@kc.kernel
def backwards(x: F64, turns: int, last: F64, y: F64):
    i = kc.tid()
    total, previous, at = kc.float64(0.0), kc.float64(1.0), 0
    for j in range(turns - 1, -1, -1):
        quotient = x[j] / (kc.sqrt(x[i]) + kc.float64(j))
        total = total * previous + quotient
        previous, at = quotient, j
    last[i] = previous + kc.float64(at)
    y[i] = total


@kc.kernel
def wide_indices(x: F32, turns: kc.int64, y: F32):
    i = kc.tid()
    total = kc.float32(0.0)
    for j in range(kc.int64(0), turns):
        d = x[i] - x[j]
        total = kc.max(total, kc.sqrt(d * d + 0.25) / x[i])
    y[i] = total


@kc.kernel
def in_branches_and_loops(x: F32, turns: int, y: F32):
    i = kc.tid()
    total = x[i]
    for k in range(3):
        if total > 0.5:
            for j in range(k, turns):
                total += x[j] / kc.sqrt(x[i] + 1.5)
        else:
            total += 1.0 / (total + kc.float32(k) + 3.0)
    y[i] = total


@kc.kernel
def stores(x: F32, turns: int, y: F32):
    i = kc.tid()
    for j in range(turns):
        y[i] = y[i] + x[j] / (x[i] + 1.5)


@kc.kernel
def waits_for_itself(x: F32, turns: int, y: F32):
    i = kc.tid()
    total = kc.float32(1.0)
    for j in range(turns):
        total = x[j] / (total + 1.5)
    y[i] = total


@kc.kernel
def only_a_root(x: F32, turns: int, y: F32):
    i = kc.tid()
    total = kc.float32(0.0)
    for j in range(turns):
        total += kc.sqrt(x[i] + x[j])
    y[i] = total


@kc.kernel
def has_enough_to_do(x: F32, turns: int, y: F32):
    i = kc.tid()
    total = kc.float32(0.0)
    for j in range(turns):
        total += kc.sin(x[i] - x[j]) / (kc.exp(x[j] * x[i]) + 1.0)
    y[i] = total


def operands(kernel: kc.Kernel, turns: int) -> list[Any]:
    """Positive numbers for the first arrays of ``kernel``, the number of turns, and zeros."""
    rng = np.random.default_rng(1)
    made: list[Any] = []
    for param in kernel.func.params:
        ty = param.type
        if not isinstance(ty, ArrayType):
            made.append(turns)
            continue
        shape = (SIZE, *ty.components)
        is_result = any(isinstance(m, int) for m in made)
        values = np.zeros(shape) if is_result else rng.uniform(0.25, 2, shape)
        made.append(values.astype(ty.dtype.name))
    return made


OVERLAPPING = (forces, halves, backwards, wide_indices, in_branches_and_loops)


@pytest.mark.parametrize("lanes", GANGS)
@pytest.mark.parametrize("kernel", OVERLAPPING, ids=lambda k: k.name)
def test_bits_are_those_of_single_threads(kernel: kc.Kernel, lanes: int) -> None:
    func = optimize(kernel.func)
    assert OVERLAPPED in cpu.llvm_text(func, form=Form(lanes, overlaps=True))
    for turns in (0, 1, 2, 7):
        agree(func, operands(kernel, turns), (SIZE,), None, lanes)


@pytest.mark.parametrize(
    ("kernel", "part", "registers"),
    [(forces, "<4 x float>", 4), (halves, "<4 x float>", 4), (backwards, "<2 x double>", 8)],
    ids=lambda k: getattr(k, "name", None),
)
def test_a_turn_waits_for_16_bytes_of_each_register(
    kernel: kc.Kernel, part: str, registers: int
) -> None:
    text = cpu.llvm_text(optimize(kernel.func), form=Form(64, overlaps=True))
    waiting = next(line for line in text.splitlines() if f"{OVERLAPPED}, " in line and ",X" in line)
    assert waiting.count(part) == waiting.count("X") == waiting.count(" x ") == registers


@pytest.mark.parametrize("kernel", [stores, waits_for_itself, only_a_root, has_enough_to_do])
def test_other_loops_are_left_alone(kernel: kc.Kernel) -> None:
    func = optimize(kernel.func)
    assert OVERLAPPED not in cpu.llvm_text(func, form=Form(32, overlaps=True))


def test_single_threads_wait() -> None:
    assert OVERLAPPED not in cpu.llvm_text(optimize(forces.func), form=Form(overlaps=True))
