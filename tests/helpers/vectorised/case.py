"""How kernels for vectorisation are declared: a kernel, its strategy, its arguments and grids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property, reduce
from itertools import pairwise
from math import prod
from operator import or_
from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.codegen.analysis.loop_dependence import vector_loops
from kernelcore.codegen.analysis.row_blocks import blocked_loops
from kernelcore.codegen.analysis.row_tiling import can_tile_rows, is_idempotent
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.simd.bodies import MANY_GANGS, choose_bodies
from kernelcore.codegen.simd.cost_model import outer_loops
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import LANES, VectorStrategy
from kernelcore.ir.core import Func
from kernelcore.language.types import ArrayType
from kernelcore.passes.pipeline import optimize

F32, F32_2D, F32_3D = (kc.array(kc.float32, n) for n in (1, 2, 3))
F64, F64_2D = kc.array(kc.float64, 1), kc.array(kc.float64, 2)
I8, I32, I64, VEC3 = (kc.array(t, 1) for t in (kc.int8, kc.int32, kc.int64, kc.vec3))
Grid = tuple[int, ...]

SCALAR = VectorStrategy()
GANGS = tuple(VectorStrategy(lanes) for lanes in (4, 16, 64))
EVERY_GANG = tuple(VectorStrategy(lanes) for lanes in LANES[1:])
TILES = tuple(VectorStrategy(4, tile_rows=rows) for rows in (1, 2, 4, 8))
NARROW_TILES = (
    VectorStrategy(16, tile_rows=8, tile_lanes=4),
    VectorStrategy(16, tile_rows=8, tile_lanes=8, short_tile_lanes=4),
    VectorStrategy(16, tile_rows=8, least_masked_bytes=4, tile_lanes=8, short_tile_lanes=4),
)
LOOPS = (VectorStrategy(loop_lanes=LOOP_LANES),)
# Rows of no whole gang, of whole gangs, and of gangs with every remainder of a gang of four.
ROWS = (*((n,) for n in range(1, 10)), (15,), (33,), (63,), (65,), (150,))
GRIDS = (*((3, n) for n in range(1, 10)), (1, 1), (70, 3), (7, 33), (2, 70), (3, 150))
# Rows of one point, of less than a gang, of more, and fewer points than a gang.
SHORT_ROWS = ((150, 1), (70, 3), (11, 17), (3, 67), (2, 2))


class Strategy(Flag):
    """What code generation decides about a kernel."""

    # Gangs also for arrays of any strides.
    ANY_STRIDES = auto()
    # A masked gang for the remainder of a row.
    TAIL = auto()
    # Gangs go on in the next row where rows are short.
    COLLAPSE = auto()
    # Rows may run together; a gang may run again over points that have run.
    TILE = auto()
    IDEMPOTENT = auto()
    # A loop, or two of them, can be vectorised.
    LOOP = auto()
    TWO_LOOPS = auto()
    # Loops along rows run in blocks of iterations.
    BLOCKS = auto()
    # Gangs in the middle of rows have code of their own.
    MIDDLE = auto()
    # Iterations of a loop are independent, and access neighbours.
    INDEPENDENT = auto()


NONE = Strategy(0)
ANY_STRIDES, TAIL, COLLAPSE = Strategy.ANY_STRIDES, Strategy.TAIL, Strategy.COLLAPSE
TILE, IDEMPOTENT, LOOP = Strategy.TILE, Strategy.IDEMPOTENT, Strategy.LOOP
TWO_LOOPS, BLOCKS, MIDDLE = Strategy.TWO_LOOPS, Strategy.BLOCKS, Strategy.MIDDLE
INDEPENDENT = Strategy.INDEPENDENT


@dataclass(frozen=True)
class Case:
    """A kernel whose code has the same bits for every way to vectorise it.

    Attributes:
        kernel: The kernel, or its IR.
        arguments: By the extents of the grid: shapes of random arrays (without components), arrays,
            and numbers.
        strategy: What code generation is to decide about the kernel.
        forms: The ways to vectorise it that are compared.
        grids: What it is launched over.
        oracle: The form whose results are expected; None for the interpreter.
        variant: What tests call it besides the name of the kernel.
    """

    kernel: kc.Kernel | Func
    arguments: Callable[..., Sequence[Any]]
    strategy: Strategy
    forms: Sequence[VectorStrategy] = GANGS
    grids: Sequence[Grid] = ROWS
    oracle: VectorStrategy | None = None
    variant: object = ""

    def __repr__(self) -> str:
        return f"{self.kernel.name}-{self.variant}".rstrip("-")

    @cached_property
    def func(self) -> Func:
        """The IR for which code is generated."""
        given = self.kernel
        return given if isinstance(given, Func) else optimize(given.func)

    def values(self, grid: Grid) -> list[Any]:
        """Packed arrays and numbers for a launch over ``grid``."""
        rng = np.random.default_rng(prod(grid))
        found = zip(self.func.params, self.arguments(*grid), strict=True)
        return [_array(p.type, x, rng) if isinstance(x, tuple) else x for p, x in found]

    def layouts(self, values: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
        """The same arguments packed, and in arrays of other strides: all, and each alone."""
        yield "packed", list(values)
        for step in (2, -1):
            yield f"step {step}", [_spread(v, range(np.ndim(v)), step) for v in values]
        yield "spread rows", [_spread(v, [0], 2) for v in values]
        yield "Fortran", [np.asfortranarray(v) if np.ndim(v) else v for v in values]
        for at in (k for k, v in enumerate(values) if np.ndim(v)):
            alone = [_spread(v, [-1], -2) if k == at else v for k, v in enumerate(values)]
            yield f"argument {at} spread", alone


def _array(type_: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    assert isinstance(type_, ArrayType)
    extents = (*shape, *type_.components)
    match type_.dtype.kind:
        case "float":
            values: Any = rng.normal(size=extents)
        case "bool":
            values = rng.random(extents) < 0.5
        case _:
            values = rng.integers(0, 5, extents)
    return np.asarray(values).astype(type_.dtype.numpy)


def strategy_of(func: Func) -> Strategy:
    """What code generation decides about ``func``."""
    bodies, is_tiled, loops = choose_bodies(func, 4, 1), can_tile_rows(func), vector_loops(func)
    decided = {
        Strategy.ANY_STRIDES: bodies.general_lanes > 1,
        Strategy.TAIL: bodies.has_tail,
        Strategy.COLLAPSE: bodies.collapse_limit == MANY_GANGS,
        Strategy.TILE: is_tiled,
        Strategy.IDEMPOTENT: is_tiled and is_idempotent(func),
        Strategy.LOOP: len(loops) == 1,
        Strategy.TWO_LOOPS: len(loops) == 2,
        Strategy.MIDDLE: bodies.middle is not None,
        Strategy.BLOCKS: bool(blocked_loops(func, lane_strides(func))),
        Strategy.INDEPENDENT: bool(outer_loops(func)),
    }
    return reduce(or_, (flag for flag, is_so in decided.items() if is_so), NONE)


def chunks_of(grid: Grid) -> Iterator[list[tuple[int, int]] | None]:
    """A whole grid, and one cut within gangs."""
    size = prod(grid)
    yield None
    yield list(pairwise(sorted({0, size // 5, size // 3, size // 2 + 1, size})))


def _spread(value: Any, axes: Sequence[int], step: int) -> Any:
    """``value`` as a view of a larger array, with ``step`` along ``axes``."""
    if not isinstance(value, np.ndarray):
        return value
    shape, index = list(value.shape), [slice(None)] * value.ndim
    for axis in axes:
        shape[axis] *= abs(step)
        index[axis] = slice(None, None, step)
    view = np.zeros(shape, value.dtype)[tuple(index)]
    view[...] = value
    return view
