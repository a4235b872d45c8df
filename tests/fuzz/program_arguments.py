"""Arguments for random programs: the same bits for every run of the same program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelcore.ir.core import Func
from kernelcore.language.composite import value_class
from kernelcore.language.types import SCALARS, ArrayType, Dense, Element, Scalar, StructType
from tests.fuzz.grid_programs import REALS, SHARED, TABLE, WIDTH, GridProgram
from tests.fuzz.loop_programs import ELEMENTS, MARGIN
from tests.fuzz.loop_programs import WIDTH as ROW_WIDTH
from tests.fuzz.palette import GridArray
from tests.fuzz.typed_programs import Program
from tests.helpers.kernel_harness import is_float

_EDGES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    65504.0,
    3e38,
    0.5,
    2.0**31,
    2.0**63,
)
_SMALL = 12


def arguments(program: Program, classes: Mapping[str, Any]) -> list[Any]:
    """One argument per parameter; structs are instances of ``classes``."""
    rng = np.random.default_rng(program.seed)
    found: list[Any] = []
    for p in program.params:
        array = np.zeros(p.shape(program.points), p.type.numpy)
        _fill(array, p.type, rng)
        found.append(array if p.ndim else _value(p.type, array, classes))
    return found


def _fill(array: Any, type_: Element, rng: np.random.Generator) -> None:
    """Random numbers in every scalar of ``array``, whose padding stays zero."""
    match type_:
        case StructType(fields=fields):
            for name, member in fields:
                assert isinstance(member, Element)
                _fill(array[name], member, rng)
        case Scalar() | Dense():
            scalar = type_.scalar if isinstance(type_, Dense) else type_
            array[...] = numbers(scalar, array.shape, rng)


def numbers(scalar: Scalar, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Mostly small numbers, and some at the edges of the type."""
    rare = rng.random(shape) < 0.12
    with np.errstate(all="ignore"):
        if scalar.is_float:
            usual = np.round(rng.normal(0.0, 2.0, shape) * 16) / 16
            edge = rng.choice(_EDGES, shape)
            fine = rng.normal(0.0, 1.0, shape)
            mixed = np.where(rng.random(shape) < 0.5, usual, fine)
            return np.where(rare, edge, mixed).astype(scalar.numpy)
        if scalar.kind == "bool":
            return rng.random(shape) < 0.5
        low, high = scalar.limits
        usual = rng.integers(max(low, -_SMALL), _SMALL, shape)
        edges = np.array([low, high, high - 1, high // 2], scalar.numpy)
        return np.where(rare, rng.choice(edges, shape), usual.astype(scalar.numpy))


def _value(type_: Element, array: Any, classes: Mapping[str, Any]) -> Any:
    """The value that an array of no dimensions holds."""
    match type_:
        case Scalar():
            return array[()]
        case Dense():
            return value_class(type_)(array)
        case StructType(name=name, fields=fields):
            members = {n: _value(m, array[n], classes) for n, m in fields if isinstance(m, Element)}
            return classes[name](**members)


def bits(array: Any, type_: Element) -> list[Any]:
    """The scalars of an array as integers, one array per leaf; all NaNs are alike."""
    match type_:
        case StructType(fields=fields):
            return [b for n, m in fields if isinstance(m, Element) for b in bits(array[n], m)]
        case Scalar() | Dense():
            scalar = type_.scalar if isinstance(type_, Dense) else type_
            plain = np.array(array, scalar.numpy)
            words = plain.view(f"u{scalar.size_bytes}")
            if scalar.is_float:
                words[np.isnan(plain.astype(np.float64))] = np.iinfo(words.dtype).max
            return [words]


def grid_arguments(program: GridProgram, rng: np.random.Generator) -> list[Any]:
    """One argument per parameter of a kernel over a grid; arrays have any strides."""
    found: list[Any] = [strided(_grid_array(program, a, rng), a, rng) for a in program.arrays]
    return [*found, int(rng.integers(0, 5)), float(np.float32(rng.normal()))]


def _grid_array(program: GridProgram, array: GridArray, rng: np.random.Generator) -> np.ndarray:
    dtype = next(s for s in SCALARS if s.name == array.dtype).numpy
    if array.name == "at":
        return rng.integers(0, TABLE, TABLE).astype(dtype)
    if array.name.startswith("t"):
        return rng.integers(0, 5, SHARED).astype(dtype)
    shape = tuple(program.grid[a] if a >= 0 else -a for a in array.axes)
    shape += (WIDTH,) * (array.name == "w") + (array.length,) * bool(array.length)
    if array.dtype == "bool":
        return rng.random(shape) < 0.5
    if array.dtype in REALS:
        return (np.round(rng.normal(0.0, 2.0, shape) * 16) / 16).astype(dtype)
    return rng.integers(0, 9, shape).astype(dtype)


def strided(values: np.ndarray, array: GridArray, rng: np.random.Generator) -> np.ndarray:
    """``values`` in memory of another layout at times; what is only read may be expanded."""
    layout = rng.random()
    if layout < 0.4 or not values.ndim:
        return values
    axes = values.ndim - bool(array.length)
    if layout < 0.55:
        order = [*reversed(range(axes)), *range(axes, values.ndim)]
        return np.ascontiguousarray(values.transpose(order)).transpose(order)
    axis = int(rng.integers(0, values.ndim))
    if layout < 0.7 and array.name[0] in "xw" and axis < axes:
        return np.broadcast_to(values.take([0], axis), values.shape)
    step = int(rng.choice((2, 3, -1, -2)))
    shape = [n * (abs(step) if a == axis else 1) for a, n in enumerate(values.shape)]
    cut = tuple(slice(None, None, step if a == axis else None) for a in range(values.ndim))
    view = np.zeros(shape, values.dtype)[cut]
    view[...] = values
    return view


def row_arguments(
    func: Func, rng: np.random.Generator, *, width: int = ROW_WIDTH, are_exact: bool = False
) -> list[Any]:
    """Arguments of a program along rows; integers of all arrays are indices of rows.

    Floats are small integers where sums are to be exact.
    """
    found: list[Any] = []
    for param in func.params:
        if not isinstance(param.type, ArrayType):
            found.append(np.int32(rng.integers(0, width - 2 * MARGIN)))
            continue
        dtype, shape = param.type.dtype.numpy, (ELEMENTS, width)[: param.type.ndim]
        if not is_float(dtype):
            numbers: Any = rng.integers(0, 50, shape)
        else:
            numbers = rng.integers(-2, 3, shape) if are_exact else rng.normal(size=shape)
        found.append(numbers.astype(dtype))
    return found
