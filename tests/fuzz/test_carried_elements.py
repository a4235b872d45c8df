"""Random loops that read and write elements of threads: carried or not, no bit differs."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.code_form import carried_form, code_form
from kernelcore.ir.core import Func
from kernelcore.language.types import float32
from kernelcore.passes.pipeline import optimize
from tests.fuzz.program_arguments import bits
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import copies, launch, unoptimised

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "16"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
# Elements of a thread, of which loops may carry all but the last, and what loops read.
_OWN = ("c[i, j]", "p[i, j, 0]", "p[i, j, 1]", "v[i, j][1]", "q[i, k, j]")
_READ = ("a[i, k]", "b[k, j]", "d[k]", "a[i, 0]", "s[i, j]", "v[i, j][0]", "kc.float32(k)")
_RANGES = ("n", "1, n", "n - 1, -1, -1", "0, n, 2", "j", "5")
_PARAMS = "a: F2, b: F2, d: F1, c: F2, s: F2, p: F3, q: F3, v: V2, z: F1"
_TYPES = {
    "F1": kc.array(dtype=kc.float32),
    "F2": kc.array2d(dtype=kc.float32),
    "F3": kc.array3d(dtype=kc.float32),
    "V2": kc.array2d(dtype=kc.vec2),
}


class Program:
    """A kernel over two axes with a loop or two, maybe one inside the other.

    Attributes:
        grid: The extents of its launch.
        width: The iterations of loops over ``n``.
        text: The source.
    """

    def __init__(self, number: int) -> None:
        self.rng = rng = Random(number)
        self.grid = rng.choice((1, 4, 9, 17)), rng.choice((1, 3, 16, 33))
        self.width = rng.choice((0, 1, 5, 33))
        lines = [
            "@kc.kernel",
            f"def kernel({_PARAMS}):",
            "    i, j = kc.tid()",
            "    n = z.shape[0]",
        ]
        if rng.random() < 0.3:
            lines.append(
                f"    {rng.choice(_OWN[:3])} = {rng.choice(_READ[3:])}".replace("k)", "i)")
            )
        lines += self._loop("    ", "k")
        if rng.random() < 0.4:
            lines += self._loop("    ", "k")
        self.text = "\n".join(lines)

    def _loop(self, indent: str, index: str) -> list[str]:
        rng, inside = self.rng, indent + "    "
        lines = [f"{indent}for {index} in range({rng.choice(_RANGES)}):"]
        if index == "k" and rng.random() < 0.25:
            lines += self._loop(inside, "m")
        for _ in range(rng.choice((1, 1, 2, 3))):
            lines.append(inside + self._statement())
        if rng.random() < 0.15:
            lines += [f"{inside}if a[i, k] > 0.0:", f"{inside}    {self._statement()}"]
        return lines

    def _statement(self) -> str:
        rng = self.rng
        target, value = rng.choice(_OWN), self._value(2)
        form = rng.choice(
            ("{0} += {1}", "{0} += {1}", "{0} -= {1}", "{0} = {0} + {1}", "{0} = {1}")
        )
        return form.format(target, value)

    def _value(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice((*_READ, *_READ, *_OWN))
        form = rng.choice(("{} * {}", "({} - {})", "kc.max({}, {})", "({} * 0.5 + {})"))
        return form.format(self._value(depth - 1), self._value(rng.randrange(depth)))


def arguments(program: Program, func: Func) -> list[np.ndarray]:
    """Arrays, some in another order of memory; ``s`` may be ``c``."""
    rng, (rows, columns) = np.random.default_rng(program.rng.randrange(1 << 30)), program.grid
    width = max(program.width, 35)
    shapes = {
        "a": (rows, width),
        "b": (width, columns),
        "d": (width,),
        "z": (program.width,),
        "c": (rows, columns),
        "s": (rows, columns),
        "p": (rows, columns, 2),
        "q": (rows, width, columns),
        "v": (rows, columns, 2),
    }
    found: dict[str, np.ndarray] = {}
    for param in func.params:
        array = (rng.normal(size=shapes[param.name]) * 0.5).astype(np.float32)
        is_turned = rng.random() < 0.1 and param.name != "v"
        found[param.name] = np.asfortranarray(array) if is_turned else array
    if rng.random() < 0.3:
        found["s"] = found["c"]
    return list(found.values())


def check(program: Program) -> bool:
    """Compare a launch in two parts with the interpreter; whether loops of the kernel may carry."""
    kernel: Any = define(program.text, {"kc": kc, **_TYPES})["kernel"]
    func, rng = optimize(kernel.func), program.rng
    given, points = arguments(program, func), program.grid[0] * program.grid[1]
    wanted, found = together(given), together(given)
    interpreter.run(func, wanted, program.grid)
    cut = rng.randint(0, points)
    gang, least = rng.choice((1, 4, 16, 64)), rng.choice((1, 4, NO_MASKS))
    carried = carried_form(code_form(func))
    may_tile = gang > 1 and can_tile_rows(func if carried is None else carried.func)
    form: tuple[Any, ...] = (gang, 1, rng.choice((1, 4, 8)) if may_tile else 1, least)
    with unoptimised():
        status = launch(
            func, found, program.grid, [(0, cut), (cut, points)], *rng.choice(((), form))
        )
    assert status == abi.STATUS_OK
    for a, b in zip(found, wanted, strict=True):
        one, other = bits(a, float32), bits(b, float32)
        np.testing.assert_array_equal(one, other, program.text)
    return carried is not None


def together(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Copies of ``arrays``; those that are one array have one copy."""
    made = {id(a): copies([a])[0] for a in arrays}
    return [made[id(a)] for a in arrays]


@pytest.mark.parametrize("shard", range(8))
def test_carried_elements_have_the_bits_of_the_interpreter(shard: int) -> None:
    carried = [check(Program(number)) for number in range(FIRST + shard, FIRST + 4 * COUNT, 8)]
    assert any(carried)
