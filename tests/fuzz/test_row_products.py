"""Random loops over what all rows of the grid read: tiles have the bits of the interpreter."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base import native
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.panels import LEAST_ROWS_TRANSPOSED
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.simd.contraction import contract_sums
from kernelcore.codegen.simd.strategy import loops_in_parts
from kernelcore.ir.core import Func
from kernelcore.language.types import ArrayType
from kernelcore.passes.pipeline import optimize
from tests.fuzz.program_arguments import bits
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import copies, launch, unoptimised

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "8"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
# What a loop reads: of the row of the grid, of the row or the column that belongs to the lane, of
# neither.
_OWN, _ALONG, _DOWN = ("a[i, k]", "w[i]"), ("b[j, k]", "c[j, k]"), ("e[k, j]", "f[k, j]")
_OTHERS = ("d[k]", "bias[j]", "e[k, j]")
_RANGES = ("n", "1, n", "n - 1, -1, -1", "0, n, 2", "n - 2, 0, -1")


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")


class Program:
    """A kernel over two axes with one loop or two along rows, or down columns.

    Attributes:
        grid: The extents of its launch.
        width: The number of columns of what the loops read.
        text: The source.
    """

    def __init__(self, number: int, *, is_down: bool = False) -> None:
        self.rng = rng = Random(number)
        self._shared = _DOWN if is_down else _ALONG
        least = LEAST_ROWS_TRANSPOSED
        few = rng.randint(4, 9) if is_down else 3
        rows = rng.choice((few, least - 1, least, rng.randint(least + 1, 70)))
        self.grid = rows, rng.choice((1, 3, 4, 5, 16, 17, 33))
        self.width = rng.choice((1, 5, 31, 32, 33, rng.randint(34, 70)))
        self.real = rng.choice(("float32", "float64"))
        types = {"d": 1, "w": 1, "bias": 1}
        params = [
            f"{name}: kc.array(kc.{self.real}, {types.get(name, 2)})"
            for name in ("a", "b", "c", "d", "e", "f", "w", "bias", "y")
        ]
        lines = [
            "@kc.kernel",
            f"def kernel({', '.join(params)}):",
            "    i, j = kc.tid()",
            "    n = a.shape[1]",
        ]
        found = ["bias[j]"]
        for at in range(rng.choice((1, 1, 2))):
            lines += self._loop(f"s{at}", found[-1])
            found.append(f"s{at}")
        self.text = "\n".join([*lines, f"    y[i, j] = {' - '.join(found[1:])}"])

    def _loop(self, name: str, start: str) -> list[str]:
        rng = self.rng
        term = self._term(rng.choice((1, 2, 3)), name)
        kind = rng.choice(("+=", "+=", "-=", "max", "min"))
        if rng.random() < 0.7:
            factor = rng.choice(self._shared)
            term, kind = f"{self._term(1, name)} * {factor}", rng.choice(("+=", "-="))
        update = f"{name} {kind} {term}" if "=" in kind else f"{name} = kc.{kind}({name}, {term})"
        lines = [f"    {name} = {start}", f"    for k in range({rng.choice(_RANGES)}):"]
        if rng.random() < 0.3:
            lines.append(f"        t = kc.abs({rng.choice(self._shared)})")
            update = update.replace(rng.choice(self._shared), "t")
        return [*lines, f"        {update}"]

    def _term(self, depth: int, name: str) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice((*_OWN, *self._shared, *self._shared, *_OTHERS))
        parts = self._term(depth - 1, name), self._term(rng.randrange(depth), name)
        form = rng.choice(("({} * {})", "({} - {})", "kc.max({}, {})", "({} + kc.sin({}))"))
        return form.format(*parts)


def arguments(program: Program, func: Func) -> list[np.ndarray]:
    """Arrays, some in another order of memory."""
    rng, (rows, columns) = np.random.default_rng(program.rng.randrange(1 << 30)), program.grid
    shapes = {
        "a": (rows, program.width),
        "b": (columns, program.width),
        "c": (columns, program.width),
        "d": (program.width,),
        "e": (program.width, columns),
        "f": (program.width, columns),
        "w": (rows,),
        "bias": (columns,),
        "y": (rows, columns),
    }
    found: list[np.ndarray] = []
    for param in func.params:
        array = rng.normal(size=shapes[param.name]).astype(program.real)
        found.append(np.asfortranarray(array) if rng.random() < 0.1 else array)
    return found


def check(program: Program) -> Func:
    """Compare a launch in two parts with the interpreter; the kernel."""
    kernel: Any = define(program.text, {"kc": kc})["kernel"]
    func, rng = optimize(kernel.func), program.rng
    given, points = arguments(program, func), program.grid[0] * program.grid[1]
    wanted, found = copies(given), copies(given)
    interpreter.run(func, wanted, program.grid)
    cut = rng.randint(0, points)
    gang, least = rng.choice((1, 4, 16, 64)), rng.choice((1, 1, 4, NO_MASKS))
    rows = rng.choice((1, 2, 4, 8)) if gang > 1 and can_tile_rows(func) else 1
    chunks = [(0, cut), (cut, points)]
    of_tiles = rng.choice((0, 4, min(2 * gang, 64))) if gang > 1 else 0
    form: tuple[Any, ...] = rng.choice(((), (gang, 1, rows, least, 0, False, of_tiles)))
    with unoptimised():
        status = launch(func, found, program.grid, chunks, *form)
    assert status == abi.STATUS_OK
    for param, a, b in zip(func.params, found, wanted, strict=True):
        assert isinstance(param.type, ArrayType)
        one, other = bits(a, param.type.dtype), bits(b, param.type.dtype)
        np.testing.assert_array_equal(one, other, program.text)
    return func


@pytest.mark.parametrize("shard", range(8))
def test_tiles_over_transposed_rows_have_the_bits_of_the_interpreter(shard: int) -> None:
    for number in range(FIRST + shard, FIRST + 2 * COUNT, 8):
        check(Program(number))


def test_some_programs_have_panels_of_transposed_rows_and_contracted_sums() -> None:
    texts = [Program(number).text for number in range(FIRST, FIRST + 2 * COUNT)]
    kernels: list[Any] = [define(text, {"kc": kc})["kernel"] for text in texts]
    loops = {func: loops_in_parts(func) for func in (optimize(k.func) for k in kernels)}
    in_panels = [f for f, e in loops.items() if e and all(x.most_in_panels for x in e.values())]
    assert in_panels
    assert not native.has_fma or any(contract_sums(func) is not func for func in in_panels)


@pytest.mark.parametrize("shard", range(8))
def test_tiles_over_columns_have_the_bits_of_the_interpreter(shard: int) -> None:
    contracted = 0
    for number in range(FIRST + shard, FIRST + 2 * COUNT, 8):
        func = check(Program(number, is_down=True))
        contracted += contract_sums(func) is not func
    assert contracted > 0 or not native.has_fma
