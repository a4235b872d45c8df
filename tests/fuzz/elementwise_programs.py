"""Random kernels that frameworks can fuse: threads use elements at their launch index alone.

Components have literal indices.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.operators import Arithmetic, computed, fits, is_fused
from kernelcore.operators.shape_rules import kernel_operation
from tests.fuzz.grid_programs import GRIDS, INDICES, GridProgram
from tests.fuzz.palette import GridArray
from tests.fuzz.program_arguments import bits, grid_arguments
from tests.fuzz.typed_programs import define, unchecked_text
from tests.helpers.operations import run_operation
from tests.operators.test_fusion import NumPy

REALS = ("float32", "float32", "float64")
TYPES = (*REALS, "float32", "int32", "int32", "int8", "uint8", "uint32", "int64", "bool")
MAX_DIMENSIONS = 4


class ElementwiseProgram(GridProgram):
    """Writes one kernel without loops, tables, neighbours and elements of components."""

    unrolled = ("kc.static((1, 4))", "kc.static((0, 2, 3))")

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(f"elementwise {seed}")
        rank = rng.choice((1, 2, 2, 3))
        every = tuple(range(rank))
        self.grid = rng.choice(GRIDS[rank - 1])
        self.indices, self.real = INDICES[:rank], rng.choice(REALS)
        self.prepare()
        kinds = (every, every, (0,), (rank - 1,), (*every, -3), (-2, 0), (-2,))
        written = (every, every, (*every, -2), (*every, -3, -1)[:MAX_DIMENSIONS])
        self.inputs = [
            GridArray(f"x{k}", rng.choice(TYPES), rng.choice(kinds))
            for k in range(rng.randint(1, 3))
        ]
        self.outputs = [
            GridArray(f"y{k}", rng.choice(TYPES), rng.choice(written))
            for k in range(rng.randint(1, 2))
        ]
        self.arrays = [*self.inputs, *self.outputs]
        self.finish()

    def element(self, array: GridArray) -> str:
        axes = array.axes
        found = [self.indices[a] if a >= 0 else str(self.rng.randrange(-a)) for a in axes]
        return f"{array.name}[{', '.join(found)}]"

    def own(self, array: GridArray) -> str:
        return self.element(array)

    def below(self, extent: int, depth: int = 1) -> str:
        return str(self.rng.randrange(extent))

    def neighbour(self, depth: int) -> str:
        return self.rng.choice(self.integers)

    def real_number(self, depth: int = 0) -> str:
        # Frameworks have elementary functions of other bits.
        while "kc.sin" in (text := super().real_number(depth)):
            pass
        return text

    def function(self, one: str, two: str) -> str:
        return f"{self.rng.choice(('kc.max', 'kc.copysign'))}({one}, {two})"

    def statement(self, depth: int, *, in_loop: bool) -> None:
        self.budget -= 1
        if depth < 4 and self.budget > 0 and self.rng.random() < 0.5:
            self.rng.choice((self.branch, self.static_loop, self.records))(depth)
        else:
            self.rng.choice((self.declare, self.change, self.store, self.store))(depth)


def check_fused(seed: int) -> bool:
    """Compute an elementwise program by functions of whole arrays; False if it cannot be fused.

    Raises:
        AssertionError: They do not give the bits of the interpreter.
    """
    program = ElementwiseProgram(seed)
    kernel = define(program.text, {"kc": kc})["kernel"]
    with unchecked_text():
        params = kernel.func.params
    written = {p.name for p, e in zip(params, kernel.effects, strict=True) if e.writes}
    shapes = {
        a.name: (*program.grid, *(-n for n in a.axes[len(program.grid) :]))
        for a in program.outputs
        if a.name in written
    }
    op = kernel_operation(kernel, [*shapes], (), program.grid, shapes)
    given = grid_arguments(program, np.random.default_rng(seed))
    named = dict(zip((p.name for p in params), given, strict=True))
    args: list[Any] = [named[o.name] for o in op.operands]
    if not is_fused(op, "auto", Arithmetic()) or not fits(op, args):
        return False
    found = computed(op, NumPy(), args)
    wanted = run_operation(op, [np.array(a) for a in args], interpret=True)
    for want, got, result in zip(wanted, found, op.results, strict=True):
        dtype = result.type.dtype
        assert got.dtype == dtype.numpy
        for one, other in zip(bits(want, dtype), bits(np.array(got), dtype), strict=True):
            np.testing.assert_array_equal(other, one, f"fused {result}")
    return True
