"""Inline assembly of device code by what its instructions mean (PTX ISA), on any numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

from kernelcore.codegen.gpu import gpu_ops, ptx

LOW = (1 << 32) - 1
WIDE = (1 << 64) - 1
# Threads of a block, blocks of a launch.
SIZES = {"%ntid.x": 1024, "%nctaid.x": (1 << 31) - 1}


def evaluate(text: str, *operands: int) -> int:
    """The result of an ``asm`` of LLVM, as an unsigned integer."""
    quoted = re.search(r'asm "([^"]*)"', text)
    assert quoted is not None
    values = {f"${k + 1}": x & WIDE for k, x in enumerate(operands)} | SIZES | {"carry": 0}
    for step in re.sub(r"^\{|\}$", "", quoted[1].strip()).split(";"):
        if (step := step.strip()) and not step.startswith(".reg"):
            name, rest = step.split(maxsplit=1)
            targets, *sources = re.findall(r"\{[^}]*\}|[^\s,]+", rest)
            write(values, targets, name, result(values, name, sources))
    return values["$0"]


def read(values: Mapping[str, int], operand: str) -> int:
    if operand.startswith("{"):
        low, high = (values[name.strip()] for name in operand[1:-1].split(","))
        return low & LOW | (high & LOW) << 32
    return values[operand] if operand in values else int(operand)


def result(values: Mapping[str, int], name: str, sources: list[str]) -> int:
    x, *rest = (read(values, operand) for operand in sources)
    match name:
        case "mov.u32" | "mov.b64" | "cvt.u32.u64":
            return x
        case "mul.wide.u32":
            return (x & LOW) * (rest[0] & LOW)
        case "mad.lo.u32":
            return x * rest[0] + rest[1]
        case "shr.s32":
            return ((x & LOW) - ((x & 1 << 31) << 1)) >> rest[0]
        case "add.cc.u32":
            return (x & LOW) + (rest[0] & LOW)
        case "addc.u32":
            return x + rest[0] + values["carry"]
    raise AssertionError(f"{name} has no meaning here")


def write(values: dict[str, int], target: str, name: str, found: int) -> None:
    if name.endswith("cc.u32"):
        values["carry"] = found >> 32
    if target.startswith("{"):
        for part, half in zip(target[1:-1].split(","), (found, found >> 32), strict=True):
            values[part.strip()] = half & LOW
    else:
        is_wide = (name.endswith("64") and not name.startswith("cvt")) or ".wide" in name
        values[target] = found & (WIDE if is_wide else LOW)


def numbers(bits: int) -> list[int]:
    limits = np.iinfo(f"int{bits}")
    drawn = np.random.default_rng(bits).integers(limits.min, limits.max, 12, f"int{bits}")
    return [0, 1, -1, 4, 1 << 30, limits.min, limits.max, *map(int, drawn)]


@pytest.mark.parametrize(("text", "is_signed"), [(gpu_ops.SIGNED, True), (gpu_ops.UNSIGNED, False)])
def test_products_have_64_bits(text: str, is_signed: bool) -> None:
    for index in numbers(32):
        for stride in numbers(64):
            factor = index if is_signed else index & LOW
            assert evaluate(text, index, stride) == factor * stride & WIDE


def test_the_next_point_is_one_launch_of_threads_away() -> None:
    threads = SIZES["%ntid.x"] * SIZES["%nctaid.x"]
    for position in numbers(64):
        assert evaluate(ptx.ADVANCE, position) == position + threads & WIDE


def test_an_index_is_the_lower_half_of_a_position() -> None:
    for position in numbers(64):
        assert evaluate(ptx.LOW_HALF, position) == position & LOW
