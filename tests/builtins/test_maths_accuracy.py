"""Elementary functions: errors against mpmath, limits, and equal bits at every number of lanes."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from kernelcore.base.host import Host, host
from kernelcore.builtins import OPS
from kernelcore.builtins.maths import (
    error,
    exponential,
    hyperbolic,
    inverse,
    inverse_hyperbolic,
    logarithm,
    power,
    root,
    trigonometric,
)
from kernelcore.builtins.maths.evaluation import evaluated
from kernelcore.codegen import abi
from kernelcore.codegen.target import cpu
from kernelcore.language.types import Scalar, float32, float64
from tests.helpers.kernel_harness import elementwise, emit_lanes, launch, one_call
from tests.helpers.maths_reference import REFERENCES, exact, ulps

MODULES = (
    *(error, exponential, hyperbolic, inverse, inverse_hyperbolic, logarithm, power, root),
    trigonometric,
)
MAX_ULPS = 2.0
# Of every kind of operand: random bits, and each critical interval.
SAMPLES = 300
LANES = 16

NAMES = pytest.mark.parametrize("name", REFERENCES)
DTYPES = pytest.mark.parametrize("dtype", [float32, float64], ids=repr)
FUSED = pytest.mark.parametrize("fused", [True, False], ids=("fma", "no_fma"))


def without_fma() -> Host:
    """A processor of this kind that has the oldest instructions only."""
    is_x86 = host().triple.startswith("x86_64")
    return dataclasses.replace(host(), cpu="x86-64" if is_x86 else "generic", features="")


def compiled(
    name: str, dtype: Scalar, lanes: int, fused: bool, scales: bool = False
) -> Callable[..., np.ndarray]:
    """The machine code of ``name`` on arrays, of which it takes ``lanes`` elements at once.

    With ``scales`` it is that for processors of this kind that have an instruction for that.
    """
    func = one_call(OPS[name], dtype)
    symbol = f"lanes_{name}_{dtype}_{lanes}_{fused}_{scales}"
    text = emit_lanes(func, symbol, lanes, fused, scales and host().scales)
    code = cpu.object_code(text, host() if fused else without_fma())
    pointers = [ctypes.c_void_p] * (len(func.params) + 1)
    call = ctypes.CFUNCTYPE(None, *pointers)(cpu.load(code, symbol))

    def run(*operands: np.ndarray) -> np.ndarray:
        size = len(operands[0])
        padded = [np.resize(x, -(-size // lanes) * lanes) for x in operands]
        found = np.zeros_like(padded[0])
        arrays = [*padded, found]
        for at in range(0, len(found), lanes):
            call(*(a.ctypes.data + at * a.itemsize for a in arrays))
        return found[:size]

    return run


def reference_function(name: str, fused: bool) -> Callable[..., Any]:
    found = [f for f in (getattr(m, name, None) for m in MODULES) if f is not None]
    # What needs no polynomials is the same with and without fused operations.
    ref = OPS[name].ref
    assert ref is not None
    return evaluated(found[0], fused) if found else ref


def edges(dtype: Scalar) -> np.ndarray:
    info = np.finfo(dtype.numpy)
    tiny, least = float(info.tiny), float(info.smallest_subnormal)
    sizes = [0.0, least, 3 * least, tiny - least, tiny, 1e-30, float(info.eps), 0.1, 0.5, 1.0]
    sizes += [np.pi / 2, np.pi, 2.0, 3.0, 10.0, 100.0, 1e5, 1.5e6, 1e9, 1e30, float(info.max)]
    with np.errstate(all="ignore"):
        near = [np.nextafter(dtype(s), dtype(t)) for s in sizes for t in (-np.inf, np.inf)]
    values = np.array([*sizes, *near], dtype.numpy)
    return np.concatenate([values, -values])


def worst_angles(dtype: Scalar) -> np.ndarray:
    """Multiples of pi/2 that are next to a float, the nearest of all among them."""
    worst = 16367173 * 2.0**72 if dtype == float32 else 6381956970095103 * 2.0**797
    turns = np.array([*range(1, 60), *(2**k + 1 for k in range(6, 30))], np.float64)
    return np.array([worst, -worst, *(turns * (np.pi / 2))], dtype.numpy)


@cache
def operands(name: str, dtype: Scalar) -> list[np.ndarray]:
    """Random bits, critical intervals and edges; pairs of edges for a function of two."""
    rng = np.random.default_rng(11)
    near = REFERENCES[name].near
    word = np.dtype(f"u{dtype.size_bytes}")
    columns: list[np.ndarray] = []
    for intervals in near:
        bits = rng.integers(0, np.iinfo(word).max, SAMPLES, word, endpoint=True)
        parts = [bits.view(dtype.numpy)]
        parts += [rng.uniform(*i, SAMPLES).astype(dtype.numpy) for i in intervals]
        columns.append(np.concatenate(parts))
    pairs = np.array(list(itertools.product(edges(dtype), repeat=len(near))), dtype.numpy)
    drawn = pairs[:: max(len(pairs) // 400, 1)]
    extra = worst_angles(dtype) if len(near) == 1 else np.zeros(0, dtype.numpy)
    return [np.concatenate([c, drawn[:, k], extra]) for k, c in enumerate(columns)]


@cache
def expected(name: str, dtype: Scalar) -> list[Any]:
    return [exact(name, *row) for row in zip(*operands(name, dtype), strict=True)]


def assert_same_bits(found: np.ndarray, wanted: np.ndarray, columns: list[np.ndarray]) -> None:
    word = np.dtype(f"u{found.itemsize}")
    wrong = (found.view(word) != wanted.view(word)) & ~(np.isnan(found) & np.isnan(wanted))
    assert not wrong.any(), ([c[wrong][:5] for c in columns], found[wrong][:5], wanted[wrong][:5])


@NAMES
@DTYPES
@FUSED
def test_error_is_at_most_two_units_in_the_last_place(
    name: str, dtype: Scalar, fused: bool
) -> None:
    columns = operands(name, dtype)
    found = compiled(name, dtype, LANES, fused, scales=fused)(*columns)
    wanted = expected(name, dtype)
    errors = [0.0 if w is None else ulps(f, w) for f, w in zip(found, wanted, strict=True)]
    assert sum(w is not None for w in wanted) > SAMPLES
    worst = int(np.argmax(errors))
    assert errors[worst] <= MAX_ULPS, (errors[worst], [c[worst] for c in columns], found[worst])
    with np.errstate(all="ignore"):
        assert_same_bits(found, reference_function(name, fused)(*columns), columns)


@NAMES
@DTYPES
@pytest.mark.parametrize(("lanes", "scales"), [(1, False), (1, True), (4, False)])
def test_bits_do_not_depend_on_lanes(name: str, dtype: Scalar, lanes: int, scales: bool) -> None:
    columns = operands(name, dtype)
    ref = OPS[name].ref
    assert ref is not None
    found = compiled(name, dtype, lanes, fused=True, scales=scales)(*columns)
    assert_same_bits(found, ref(*columns), columns)


# NumPy's functions have the limits of C99, annex F.
LIMITS = {
    "pow": np.power,
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10")},
    **{name: getattr(np, name) for name in ("log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "tan2")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sinh", "cosh", "tanh")},
    "cbrt": np.cbrt,
    "hypot": np.hypot,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}


@NAMES
@DTYPES
@FUSED
def test_limits_are_those_of_c99(name: str, dtype: Scalar, fused: bool) -> None:
    info = np.finfo(dtype.numpy)
    sizes = [0.0, np.inf, 1.0, 2.0, 3.0, 0.5, float(info.max), float(info.smallest_subnormal)]
    values = np.array([np.nan, *sizes, *(-s for s in sizes)], dtype.numpy)
    count = len(REFERENCES[name].near)
    columns = [np.array(c) for c in zip(*itertools.product(values, repeat=count), strict=True)]
    with np.errstate(all="ignore"):
        wanted = np.asarray(LIMITS[name](*columns), dtype.numpy)
        found = reference_function(name, fused)(*columns)
    exact_results = np.array([0.0, np.inf, 1.0])
    is_limit = np.isin(np.abs(wanted), exact_results) | np.isnan(wanted)
    assert is_limit.any()
    assert_same_bits(found[is_limit], wanted[is_limit], [c[is_limit] for c in columns])


MAX_ULPS = 2.0
BLOCK = 1 << 20
# Of the float64 functions, measured above.
ORACLE_ULPS = 2.0 * 2.0**-29
UNARY = [name for name, reference in REFERENCES.items() if len(reference.near) == 1]


def blocks() -> Iterator[np.ndarray]:
    """All bit patterns where KC_EVERY_FLOAT32 is set; else some of every exponent and sign."""
    if os.environ.get("KC_EVERY_FLOAT32", "0") == "0":
        step = (1 << 32) // BLOCK + 3
        yield (np.arange((1 << 32) // step, dtype=np.uint64) * step).astype(np.uint32)
        return
    for start in range(0, 1 << 32, BLOCK):
        yield np.arange(start, start + BLOCK, dtype=np.uint64).astype(np.uint32)


def errors(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How far float32 is from float64, in units of float32; infinities count as 2**128."""
    limit = 2.0**128
    exponent = np.clip(np.frexp(exact)[1] - 1, -126, 127)
    number = np.clip(found.astype(np.float64), -limit, limit)
    distance = np.ldexp(np.abs(number - np.clip(exact, -limit, limit)), 23 - exponent)
    return np.where(np.isnan(found), np.where(np.isnan(exact), 0.0, np.inf), distance)


@pytest.mark.parametrize("name", UNARY)
def test_error_over_all_float32_is_at_most_two_units_in_the_last_place(name: str) -> None:
    narrow, wide = (elementwise(one_call(OPS[name], t)) for t in (float32, float64))
    worst, at = 0.0, np.float32(0)
    for bits in blocks():
        x = bits.view(np.float32)
        found, exact = np.zeros_like(x), np.zeros(len(x))
        assert launch(narrow, [x, found], len(x)) == abi.STATUS_OK
        with np.errstate(all="ignore"):
            assert launch(wide, [x.astype(np.float64), exact], len(x)) == abi.STATUS_OK
            found_errors = errors(found, exact)
        if not found_errors.max() <= worst:
            worst, at = found_errors.max(), x[np.argmax(found_errors)]
    print(f"{name}: {worst:.3f} at {at!r}")
    assert worst + ORACLE_ULPS <= MAX_ULPS, (worst, at)
