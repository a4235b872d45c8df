"""Random programs whose names stand for one array or another agree in every way to run them."""

# The kernels are made as text.
# pyright: reportArgumentType=false

from __future__ import annotations

import linecache
import os
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.passes.pipeline import optimize
from tests.device import emulation
from tests.helpers.environment import IS_CPU
from tests.helpers.kernel_harness import agree

# KC_FUZZ_PROGRAMS asks for a longer run, KC_FUZZ_SEED for another stretch of seeds.
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("KC_FUZZ_PROGRAMS", "10")))
POINTS = 6
NAMES = ("a", "b", "c")


class Writer:
    """Random statements over names of arrays."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines: list[str] = []

    def pick(self, options: Any) -> str:
        """One of ``options``."""
        return str(self.rng.choice(options))

    def array(self) -> str:
        """An expression for an array."""
        one, other = self.pick(NAMES), self.pick(NAMES)
        forms = (
            self.pick(("x[i]", "y[i]", "z[i]")),
            f"m[{self.pick(('i % 3', '1', '2 - i % 2'))}]",
            one,
            f"({one} if {self.condition()} else {other})",
            f"kc.where({self.condition()}, {one}, {other})",
            f"either({one}, {other}, i + {self.rng.integers(3)})",
            f"{one}[{self.rng.integers(2)}:]",
            "pair.first",
        )
        return self.pick(forms)

    def condition(self) -> str:
        """A condition that differs from thread to thread."""
        return self.pick(("i % 2 == 0", "i > 2", "k < 2", "t > 0.5", "n > 1"))

    def block(self, depth: int, indent: str) -> None:
        """Two to four statements."""
        for _ in range(int(self.rng.integers(2, 5))):
            self.statement(depth, indent)

    def statement(self, depth: int, indent: str) -> None:
        """One statement."""
        kinds = ["assign", "assign", "read", "read", "write", "add", "swap", "field"]
        kind = self.pick(kinds + ["if", "for"] * (depth < 2))
        name = self.pick(NAMES)
        add = self.lines.append
        match kind:
            case "assign":
                add(f"{indent}{name} = {self.array()}")
            case "read":
                add(f"{indent}if len({name}) > 3:")
                add(f"{indent}    t += 0.5 * {name}[k % 4] + kc.float64(len({name}))")
            case "write":
                add(f"{indent}if own({name}):")
                add(f"{indent}    {name}[k % 4] = 0.25 * t")
            case "add":
                add(f"{indent}if {name} and own({name}):")
                add(f"{indent}    kc.atomic_add({name}, k % 4, 0.125)")
            case "swap":
                add(f"{indent}{name}, {NAMES[0]} = {NAMES[0]}, {name}")
            case "field":
                add(f"{indent}pair.first = {name}")
            case "if":
                add(f"{indent}if {self.condition()}:")
                self.block(depth + 1, indent + "    ")
                if self.rng.random() < 0.5:
                    add(f"{indent}else:")
                    self.block(depth + 1, indent + "    ")
            case _:
                add(f"{indent}for k in range({self.pick(('i', 'n', '3'))}):")
                self.block(depth + 1, indent + "    ")


HEAD = """
@kc.struct
class Pair:
    first: A1
    second: A1

@kc.func
def either(p: A1, q: A1, k: int):
    if k % 3 == 0:
        return p
    return q

@kc.func
def own(p: A1):
    return len(p) >= 8

@kc.kernel
def kernel(x: A2, y: A2, z: A2, m: A2, n: int, out: A1):
    i = kc.tid()
    k = 0
    t = kc.float64(0.0)
    a = x[i]
    b = y[i]
    c = z[i]
    pair = Pair(x[i], y[i])
"""


def kernel_of(seed: int) -> kc.Kernel:
    """A random kernel; rows of ``m``, which are short, are shared by threads and read only."""
    writer = Writer(seed)
    writer.block(0, "    ")
    text = HEAD + "\n".join(writer.lines) + "\n    out[i] = t\n"
    file = f"<chosen arrays {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {
        "kc": kc,
        "A1": kc.array(dtype=kc.float64),
        "A2": kc.array(dtype=kc.float64, ndim=2),
        "__name__": "chosen",
    }
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names["kernel"]


@pytest.mark.parametrize("seed", SEEDS)
def test_chosen_arrays_agree(seed: int) -> None:
    kernel = kernel_of(seed)
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(POINTS, 14 + k)) for k in range(3)]
    args = [*rows, rng.normal(size=(3, 7)), 2, np.zeros(POINTS)]
    found = agree(kernel.func, args, POINTS)
    python = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with kc.python_mode():
        kc.launch(kernel, POINTS, python)
    others = [[a for a in python if isinstance(a, np.ndarray)]]
    if IS_CPU:
        device = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        assert emulation.run(optimize(kernel.func), device, POINTS).status == 0
        others.append([a for a in device if isinstance(a, np.ndarray)])
    for arrays in others:
        for one, other in zip(arrays, found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
