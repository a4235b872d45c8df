"""What operators and conversions mean at the edges of every type: Python's numbers are the oracle.

Floats of 16 bits are checked apart, in ``tests/codegen/llvm/test_float16.py``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins import OPS
from kernelcore.ir import op as ops
from kernelcore.ir.core import Func
from kernelcore.language.types import (
    FLOATS,
    INTEGERS,
    SCALARS,
    Scalar,
    bfloat16,
    boolean,
    float16,
    float32,
    float64,
    int32,
)
from tests.helpers import interpreter
from tests.helpers.kernel_harness import call, elementwise, is_float, launch, make, nearest_float


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy warns of what is tested here."""
    with np.errstate(all="ignore"):
        yield


def run(func: Func, columns: list[Any], result: Scalar) -> np.ndarray:
    """What machine code gives for ``func``, a function of scalars, along ``columns``."""
    found = np.zeros(len(columns[0]), result.numpy)
    assert launch(elementwise(func), [*columns, found], len(found)) == 0
    return found


def interpret(func: Func, columns: list[Any], result: Scalar) -> np.ndarray:
    """What the interpreter gives."""
    rows = zip(*columns, strict=True)
    return np.array([interpreter.run_function(func, row)[0] for row in rows], result.numpy)


def bits(values: np.ndarray) -> list[Any]:
    """The bits of ``values``; every NaN is the same."""
    raw = values.view(f"u{values.dtype.itemsize}").tolist()
    if not is_float(values.dtype):
        return raw
    return ["nan" if n else r for n, r in zip(np.isnan(values), raw, strict=True)]


def one_op(name: str, dtype: Scalar) -> Func:
    count = len(OPS[name].params)
    return make(name, [dtype] * count, lambda b, *args: [call(b, name, *args)])


def wrapped(number: int, dtype: Scalar) -> int:
    """``number`` modulo the width of ``dtype``."""
    least, _ = dtype.limits
    return (number - least) % (1 << dtype.bits) + least


def integers(dtype: Scalar) -> list[int]:
    """All of them if there are few, else those where something happens."""
    least, most = dtype.limits
    if dtype.bits == 8:
        return list(range(least, most + 1))
    middle = [-100, -17, -8, -3, -2, -1, 0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 1000]
    powers = [1 << (dtype.bits // 2), 1 << (dtype.bits - 2), most // 3]
    edges = [least, least + 1, most - 1, most, least // 2, most // 2]
    return sorted({v for v in (*middle, *powers, *edges) if least <= v <= most})


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda x, y, _: x + y,
    "sub": lambda x, y, _: x - y,
    "mul": lambda x, y, _: x * y,
    "floordiv": lambda x, y, _: x // y if y else 0,
    "mod": lambda x, y, _: x % y if y else 0,
    "bitand": lambda x, y, _: x & y,
    "bitor": lambda x, y, _: x | y,
    "bitxor": lambda x, y, _: x ^ y,
    "shl": lambda x, y, width: x << (y % width),
    "shr": lambda x, y, width: x >> (y % width),
    "min": lambda x, y, _: min(x, y),
    "max": lambda x, y, _: max(x, y),
    "less": lambda x, y, _: x < y,
    "less_equal": lambda x, y, _: x <= y,
    "greater": lambda x, y, _: x > y,
    "greater_equal": lambda x, y, _: x >= y,
    "equal": lambda x, y, _: x == y,
    "not_equal": lambda x, y, _: x != y,
}
UNARY: dict[str, Callable[[int, int], int]] = {
    "neg": lambda x, _: -x,
    "pos": lambda x, _: x,
    "abs": lambda x, _: abs(x),
    "sign": lambda x, _: (x > 0) - (x < 0),
    "invert": lambda x, _: ~x,
    "bit_count": lambda x, width: bin(x % (1 << width)).count("1"),
    "clz": lambda x, width: width - len(bin(x % (1 << width))[2:].lstrip("0")),
    "ctz": lambda x, width: min(next((k for k in range(width) if x >> k & 1), width), width),
}


def agree_with(
    name: str, dtype: Scalar, columns: list[list[int]], oracle: Callable[..., int]
) -> None:
    """Machine code everywhere, and the interpreter at a sample, give what ``oracle`` says."""
    result = boolean if OPS[name].result == "Bool" else dtype
    func = one_op(name, dtype)
    arrays = [np.array(c, dtype.numpy) for c in columns]
    numbers = [oracle(*row, dtype.bits) for row in zip(*columns, strict=True)]
    expected = numbers if result == boolean else [wrapped(n, dtype) for n in numbers]
    assert run(func, arrays, result).tolist() == expected
    at = np.random.default_rng(2).permutation(len(expected))[:600]
    sample = interpret(func, [a[at] for a in arrays], result)
    assert sample.tolist() == [expected[k] for k in at]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_integer_operators_are_those_of_python_modulo_the_width(name: str, dtype: Scalar) -> None:
    x, y = (list(c) for c in zip(*itertools.product(integers(dtype), repeat=2), strict=True))
    agree_with(name, dtype, [x, y], BINARY[name])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_integer_functions_are_those_of_python_modulo_the_width(name: str, dtype: Scalar) -> None:
    agree_with(name, dtype, [integers(dtype)], UNARY[name])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_rotations_keep_every_bit(dtype: Scalar) -> None:
    width = dtype.bits

    def left(x: int, y: int, _: int) -> int:
        text = format(x % (1 << width), f"0{width}b")
        return int(text[y % width :] + text[: y % width], 2)

    rows = itertools.product(integers(dtype)[:: max(width // 8, 1)], range(min(width + 3, 100)))
    x, y = (list(c) for c in zip(*rows, strict=True))
    agree_with("rotl", dtype, [x, y], left)
    agree_with("rotr", dtype, [x, y], lambda x, y, n: left(x, -y, n))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_ranges_have_the_length_that_python_gives(dtype: Scalar) -> None:
    least, most = dtype.limits
    ends = [v for v in (least, -3, 0, 1, 5, 10, most - 1, most) if v >= least]
    steps = [v for v in (least, -4, -1, 0, 1, 3, most) if v >= least]
    rows = list(itertools.product(ends, ends, steps))
    columns = [np.array(c, dtype.numpy) for c in zip(*rows, strict=True)]
    # len() itself fails above what a C integer holds.
    expected = [
        min(max(0, -((start - stop) // step) if step else 0), most) for start, stop, step in rows
    ]
    func = one_op("range_len", dtype)
    assert run(func, columns, dtype).tolist() == expected
    assert interpret(func, columns, dtype).tolist() == expected


def exact_values(source: Scalar) -> list[Any]:
    """Python numbers of ``source`` where a conversion can go wrong."""
    if source == boolean:
        return [False, True]
    if source.is_integer:
        ties = [
            (1 << k) + (1 << (k - p)) + d
            for k in (30, 53, 62, 63)
            for p in (8, 11, 24)
            for d in (-1, 0, 1)
        ]
        numbers = [*integers(source), *ties, *(-t for t in ties), 65504, 65519, 65520, 2**24 + 1]
        return [n for n in numbers if source.limits[0] <= n <= source.limits[1]]
    limits = [n + d for t in INTEGERS for n in t.limits for d in (-1, -0.5, 0, 0.5, 1)]
    ties = [1 + 2.0**-p + d for p in (8, 9, 11, 12, 24, 25) for d in (-(2.0**-40), 0.0, 2.0**-40)]
    small = [2.0**-k * f for k in (14, 24, 25, 126, 133, 134, 149, 150) for f in (0.75, 1, 1.25)]
    large = [65504, 65519.99, 65520, 65520.01, 3.38e38, 3.3961775e38, 3.4e38, 1e19, 1e300]
    tiny = [5e-324, 1e-300, 0.0, 0.5, 1.9]
    values = np.array([*limits, *ties, *small, *large, *tiny], np.float64)
    found = values.astype(source.numpy).astype(np.float64).tolist()
    return [*found, *(-v for v in found), math.nan, math.inf, -math.inf]


def converted(value: Any, target: Scalar) -> Any:
    """``value`` as ``target``, from the definition."""
    if target == boolean:
        return value != 0
    if target.is_float:
        return nearest_float(value, target)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        least, most = target.limits
        return (
            min(max(value, least), most) if math.isinf(value) else min(max(int(value), least), most)
        )
    return wrapped(int(value), target)


@pytest.mark.parametrize("target", SCALARS, ids=str)
@pytest.mark.parametrize("source", SCALARS, ids=str)
def test_conversions_wrap_saturate_and_round_once(source: Scalar, target: Scalar) -> None:
    func = make("cast", [source], lambda b, x: [b.emit(ops.CAST, x, dtype=target)])
    values = exact_values(source)
    column = np.array(values, source.numpy)
    expected = np.array([converted(v, target) for v in values], target.numpy)
    assert bits(run(func, [column], target)) == bits(expected)
    assert bits(interpret(func, [column], target)) == bits(expected)


def test_known_conversions() -> None:
    def cast(value: Any, source: Scalar, target: Scalar) -> Any:
        func = make("cast", [source], lambda b, x: [b.emit(ops.CAST, x, dtype=target)])
        return run(func, [np.array([value], source.numpy)], target)[0]

    assert cast(-1, int32, SCALARS[7]) == 255
    assert cast(-1.5, float32, SCALARS[9]) == 0
    assert cast(300.0, float64, SCALARS[7]) == 255
    assert cast(math.nan, float32, SCALARS[10]) == 0
    assert cast(2**64 - 1, SCALARS[10], float32) == 2.0**64
    assert cast(1 + 2.0**-11 + 2.0**-40, float64, float16) == 1 + 2.0**-10
    assert cast(1 + 2.0**-8 + 2.0**-40, float64, bfloat16) == 1 + 2.0**-7
    assert math.copysign(1, cast(-0.0, float64, bfloat16)) == -1


def special(dtype: Scalar) -> np.ndarray:
    """Zeros, infinities, NaN, and the ends of the subnormal and normal numbers."""
    tiny = {float16: 2.0**-24, bfloat16: 2.0**-133, float32: 2.0**-149, float64: 5e-324}[dtype]
    normal = {float16: 2.0**-14, bfloat16: 2.0**-126, float32: 2.0**-126, float64: 2.0**-1022}
    values = [0.0, tiny, 3 * tiny, normal[dtype], 0.5, 1.0, 1.5, 2.5, 3.0, math.inf]
    return np.array([*values, *(-v for v in values), math.nan], np.float64).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_wins_in_min_max_and_clamp(dtype: Scalar) -> None:
    x, y = _pairs(dtype)
    for name, oracle in (("min", np.minimum), ("max", np.maximum)):
        found = run(one_op(name, dtype), [x, y], dtype)
        assert bits(found) == bits(interpret(one_op(name, dtype), [x, y], dtype))
        # NumPy leaves the sign of a zero among zeros open.
        wide = oracle(x.astype(np.float64), y.astype(np.float64)) + 0.0
        assert bits(found.astype(np.float64) + 0.0) == bits(wide)
    clamped = run(one_op("clamp", dtype), [x, y, np.flip(x)], dtype)
    has_nan = np.isnan(x) | np.isnan(y) | np.isnan(np.flip(x))
    assert np.isnan(clamped)[has_nan].all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_float_arithmetic_is_exact_arithmetic_rounded_once(name: str, dtype: Scalar) -> None:
    rng = np.random.default_rng(11)
    raw = rng.integers(0, 256, (2, 3000, dtype.size_bytes), np.uint8)
    raw[:, ::3, : dtype.size_bytes // 2] = 0  # few digits make ties
    x, y = raw.view(dtype.numpy)[..., 0]
    x, y = (np.concatenate([v, s]) for v, s in zip((x, y), _pairs(dtype), strict=True))
    expected = np.array(
        [_exactly(name, float(a), float(b), dtype) for a, b in zip(x, y, strict=True)]
    )
    func = one_op(name, dtype)
    assert bits(run(func, [x, y], dtype)) == bits(expected.astype(dtype.numpy))
    assert bits(interpret(func, [x, y], dtype)) == bits(expected.astype(dtype.numpy))


def _pairs(dtype: Scalar) -> tuple[np.ndarray, np.ndarray]:
    x, y = zip(*itertools.product(special(dtype), repeat=2), strict=True)
    return np.array(x, dtype.numpy), np.array(y, dtype.numpy)


def _exactly(name: str, x: float, y: float, dtype: Scalar) -> float:
    """``x`` and ``y`` combined as rational numbers; IEEE's float64 where one is no number."""
    combine: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": np.divide,
    }
    plain = float(combine[name](np.float64(x), np.float64(y)))
    if not (math.isfinite(x) and math.isfinite(y)) or (name == "div" and y == 0):
        return plain
    p, q = Fraction(x), Fraction(y)
    exact = p / q if name == "div" else combine[name](p, q)
    if exact == 0:
        return plain
    return float(nearest_float(exact, dtype))


def test_zeros_keep_their_sign() -> None:
    for dtype in FLOATS:
        zero = np.array([-0.0], dtype.numpy)
        for name, is_negative in (("neg", False), ("abs", False), ("sqrt", True), ("pos", True)):
            found = run(one_op(name, dtype), [zero], dtype)
            assert bool(np.signbit(found)[0]) is is_negative, (name, dtype)


def test_float_quotients_round_down_and_remainders_have_the_sign_of_the_divisor() -> None:
    rows = [(7.0, 2.0), (-7.0, 2.0), (7.0, -2.0), (-7.0, -2.0), (6.0, 3.0), (-6.0, 3.0)]
    for dtype in FLOATS:
        x, y = (np.array(c, dtype.numpy) for c in zip(*rows, strict=True))
        quotients = [math.floor(a / b) for a, b in rows]
        assert run(one_op("floordiv", dtype), [x, y], dtype).tolist() == quotients
        assert run(one_op("mod", dtype), [x, y], dtype).tolist() == [a % b for a, b in rows]


# Zeros of both signs, integers, fractions, the smallest numbers, and what is none.
SPECIAL = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -7.5, 100.0, -100.25, 3e4, 0.1, 0.333),
    *(1e-3, 6e-8, -6e-8, math.inf, -math.inf, math.nan),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("inputs", [1, 2])
def test_host_values_have_the_bits_of_kernels(dtype: Any, inputs: int) -> None:
    """What the compiler folds and Python mode evaluates is what machine code computes."""
    checked = 0
    values = np.array(SPECIAL).astype(dtype.numpy)
    columns = [a.ravel().copy() for a in np.meshgrid(*[values] * inputs)]
    for name in (n for n, op in OPS.items() if op.ref is not None and hasattr(kc, n)):
        builtin = getattr(kc, name)

        @kc.kernel
        def one(x: kc.array[Any], y: kc.array[Any]):
            i = kc.tid()
            y[i] = builtin(x[i])  # noqa: B023

        @kc.kernel
        def two(x: kc.array[Any], z: kc.array[Any], y: kc.array[Any]):
            i = kc.tid()
            y[i] = builtin(x[i], z[i])  # noqa: B023

        found = np.zeros_like(columns[0])
        try:
            kc.launch(two if inputs == 2 else one, len(found), columns, [found])
        except kc.KernelTypeError:
            continue  # another number of arguments, or no function of floats
        on_host = [builtin(*(dtype(float(a)) for a in row)) for row in zip(*columns, strict=True)]
        wanted = np.array([float(a) for a in on_host]).astype(found.dtype)
        is_nan = np.isnan(found)
        np.testing.assert_array_equal(np.isnan(wanted), is_nan, name)
        assert wanted[~is_nan].tobytes() == found[~is_nan].tobytes(), name
        checked += 1
    assert checked == (36 if inputs == 1 else 13)
