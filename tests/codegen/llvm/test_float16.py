"""float16 and bfloat16 bit by bit: every pattern, every boundary between two numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kernelcore.codegen.llvm.kernel import emit_kernel
from kernelcore.codegen.target import cpu
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Func, Var
from kernelcore.language.types import ArrayType, Scalar, bfloat16, float16, float32, float64
from tests.helpers import interpreter
from tests.helpers.kernel_harness import (
    agree,
    call,
    elementwise,
    emit_lanes,
    launch,
    make,
    nearest_float,
)

NARROW = pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
INFINITY = {float16: 0x7C00, bfloat16: 0x7F80}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy warns of what is tested here."""
    with np.errstate(all="ignore"):
        yield


def patterns(dtype: Scalar) -> np.ndarray:
    """Every value there is."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


def run(func: Func, columns: list[np.ndarray], result: Scalar) -> np.ndarray:
    found = np.zeros(len(columns[0]), result.numpy)
    assert launch(elementwise(func), [*columns, found], len(found)) == 0
    return found


def interpret(func: Func, columns: list[np.ndarray], result: Scalar) -> np.ndarray:
    rows = zip(*columns, strict=True)
    return np.array([interpreter.run_function(func, row)[0] for row in rows], result.numpy)


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits, where any NaN equals any other."""
    raw = [v.view(f"u{v.dtype.itemsize}") for v in (found, expected)]
    wrong = (raw[0] != raw[1]) & ~(np.isnan(found) & np.isnan(expected))
    assert not wrong.any(), (found[wrong][:5], expected[wrong][:5])


def cast(source: Scalar, target: Scalar) -> Func:
    return make("cast", [source], lambda b, x: [b.emit(ops.CAST, x, dtype=target)])


def one_op(name: str, dtype: Scalar, count: int) -> Func:
    return make(name, [dtype] * count, lambda b, *args: [call(b, name, *args)])


@NARROW
def test_every_pattern_is_loaded_and_stored_as_it_is(dtype: Scalar) -> None:
    values = patterns(dtype)
    found = run(make("copy", [dtype], lambda b, x: [x]), [values], dtype)
    assert found.tobytes() == values.tobytes()


@NARROW
@pytest.mark.parametrize("wide", [float32, float64], ids=str)
def test_every_pattern_extends_exactly_and_comes_back(dtype: Scalar, wide: Scalar) -> None:
    values = patterns(dtype)
    extended = run(cast(dtype, wide), [values], wide)
    assert_same_bits(extended, values.astype(wide.numpy))
    assert_same_bits(run(cast(wide, dtype), [extended], dtype), values)


@NARROW
@pytest.mark.parametrize("wide", [float32, float64], ids=str)
def test_every_boundary_between_two_numbers_is_a_tie(dtype: Scalar, wide: Scalar) -> None:
    below = np.arange(INFINITY[dtype], dtype=np.uint16)
    low, high = (v.view(dtype.numpy).astype(np.float64) for v in (below, below + np.uint16(1)))
    # Infinity takes the place of the number that would follow the largest.
    high[-1] = 2 * low[-1] - low[-2]
    middle = ((low + high) / 2).astype(wide.numpy)
    even = below + below % 2
    zero, infinity = wide.numpy.type(0), wide.numpy.type(np.inf)
    cases = [
        (np.nextafter(middle, zero), below),
        (middle, even),
        (np.nextafter(middle, infinity), below + np.uint16(1)),
    ]
    func = cast(wide, dtype)
    for column, bits in cases:
        assert_same_bits(run(func, [column], dtype), bits.view(dtype.numpy))
        negative = (bits | np.uint16(0x8000)).view(dtype.numpy)
        assert_same_bits(run(func, [-column], dtype), negative)
        assert_same_bits(interpret(func, [column[::7]], dtype), bits[::7].view(dtype.numpy))


UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "round": np.rint,
    "sign": np.sign,
}


@NARROW
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_every_pattern_are_rounded_from_float32(dtype: Scalar, name: str) -> None:
    values, func = patterns(dtype), one_op(name, dtype, 1)
    expected = UNARY[name](values.astype(np.float32)).astype(dtype.numpy)
    assert_same_bits(run(func, [values], dtype), expected)
    assert_same_bits(interpret(func, [values[::5]], dtype), expected[::5])


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}


def pairs(dtype: Scalar) -> list[np.ndarray]:
    """Random patterns; then sums that are ties: the second is half the first's last place."""
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 1 << 16, (2, 1 << 17), np.uint16).view(dtype.numpy)
    first = rng.integers(0, INFINITY[dtype], 1 << 14, np.uint16)
    upper = (first + np.uint16(1)).view(dtype.numpy).astype(np.float64)
    half = (upper - first.view(dtype.numpy).astype(np.float64)) / 2
    half *= rng.choice([-1, 1, 3], len(half))
    ties = [first.view(dtype.numpy), half.astype(dtype.numpy)]
    return [np.concatenate(c) for c in zip((x, y), ties, strict=True)]


@NARROW
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_has_the_bits_of_numpy(dtype: Scalar, name: str) -> None:
    columns, func = pairs(dtype), one_op(name, dtype, 2)
    # Where two zeros meet NumPy leaves the sign of the smaller one open.
    if name in ("min", "max"):
        both_zero = (columns[0] == 0) & (columns[1] == 0)
        columns = [c[~both_zero] for c in columns]
    expected = BINARY[name](*columns)
    assert_same_bits(run(func, columns, dtype), expected)
    assert_same_bits(interpret(func, [c[::13] for c in columns], dtype), expected[::13])


def chain(dtype: Scalar) -> Func:
    """Products, sums and a root with literals between them."""

    def write(b: Builder, x: Var, y: Var) -> list[Atom]:
        product = call(b, "mul", x, y)
        total = call(b, "add", product, Const(dtype, 0.1))
        return [call(b, "div", total, call(b, "sqrt", call(b, "abs", x)))]

    return make("chain", [dtype, dtype], write)


@NARROW
def test_every_step_rounds_and_none_is_contracted(dtype: Scalar) -> None:
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(2, 4000)).astype(np.float32).astype(dtype.numpy)
    tenth = np.float64(nearest_float(0.1, dtype)).astype(dtype.numpy)
    expected = (x * y + tenth) / np.sqrt(np.abs(x))
    assert_same_bits(run(chain(dtype), [x, y], dtype), expected)
    assert_same_bits(interpret(chain(dtype), [x, y], dtype), expected)


@NARROW
@pytest.mark.parametrize("lanes", [1, 8])
def test_code_has_no_16_bit_float_and_calls_no_library(dtype: Scalar, lanes: int) -> None:
    text = emit_lanes(chain(dtype), "f", lanes)
    assert not re.search(r"\b(half|bfloat)\b", text)
    names = re.findall(r"^declare .*?@([\w.]+)", text, re.M)
    assert all(name.startswith("llvm.") for name in names)
    code = cpu.assembly(emit_kernel(elementwise(chain(dtype)), "k"))
    assert "call" not in code
    assert "vcvtps2ph" not in code
    assert "vcvtph2ps" not in code


@NARROW
def test_literals_and_arguments_round_once(dtype: Scalar) -> None:
    digits = {float16: 10, bfloat16: 7}[dtype]
    above_tie = 1 + 2.0 ** -(digits + 1) + 2.0**-40
    expected = 1 + 2.0**-digits

    def write(b: Builder, value: Var, out: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        literal = Const(dtype, above_tie)
        b.emit_effect(ops.STORE, out, i, call(b, "mul", literal, value))

    func = make("scaled", [dtype, ArrayType(dtype, 1)], write, grid_rank=1)
    (found,) = agree(func, [dtype(2), np.zeros(3, dtype.numpy)], 3)
    assert found.astype(float).tolist() == [2 * expected] * 3
    one = make("one", [dtype], lambda b, x: [x])
    assert interpreter.run_function(one, [above_tie])[0] == expected


@NARROW
def test_values_keep_their_neighbours_in_packed_blocks_of_arguments(dtype: Scalar) -> None:
    def write(b: Builder, *params: Var) -> None:
        *values, out = params
        total = values[0]
        for value in values[1:]:
            total = call(b, "sub", call(b, "mul", total, Const(dtype, 2.0)), value)
        b.emit_effect(ops.STORE, out, total)

    func = make("fields", [dtype] * 3 + [ArrayType(dtype, 0)], write)
    args = [dtype(1.5), dtype(-2.0), dtype(0.25), np.zeros((), dtype.numpy)]
    assert float(agree(func, args, 1)[-1]) == (1.5 * 2 + 2.0) * 2 - 0.25
