"""Random kernels that name the elements of small rows by constants, as source text."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

POINTS = 41
# What arrays are like: rows that fit, longer ones, and arrays in Fortran order.
FITTING, LONGER, FORTRAN = range(3)

HEADER = """\
@kc.kernel
def kernel(
    n: kc.array1d[kc.int32], at: kc.array1d[kc.int32], w: kc.array1d[D],
    x: kc.array[D, {x}], far: kc.array[D, {far}], y: kc.array[D, {y}], z: kc.array[D, {z}],
    apart: kc.array[D, {apart}], shared: kc.array[D, {shared}],
):
    i = kc.tid()
    k = at[i]
    s = w[i]
    b = w[0]
"""
ARRAYS = ("x", "far", "y", "z", "apart", "shared")
EXTENTS = ((2,), (3,), (3,), (4,), (5,), (7,), (11,), (17,), (2, 2), (2, 3), (3, 3), (5, 4))


class SmallRowProgram:
    """Program ``seed``: ``text`` defines ``kernel`` where ``D`` is its type.

    Attributes:
        dtype: The name of the type of elements.
        named: The extents along the last axes of what the kernel names, by array.
        has_one_index: Whether all loads of elements that lie anywhere have the same index.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtype = self.rng.choice(["float32", "float32", "float64", "int32", "float16"])
        self.named = {name: self.rng.choice(EXTENTS) for name in ARRAYS}
        # Whether threads add to rows that they share.
        self.adds = self.rng.random() < 0.5
        # The one of two rows of a thread that it writes: those of neighbours are not adjacent.
        self.side = self.rng.randrange(2)
        self.has_one_index = self.rng.random() < 0.5
        self.lines: list[str] = []
        for _ in range(5):
            self.statement(1)
        for name in ("y", "z", "apart", "shared")[: 3 + self.adds]:
            self.row(1, name)
        axes = {name: 1 + len(e) + (name == "apart") for name, e in self.named.items()}
        header = HEADER.format(**axes)
        self.text = header + "\n".join(self.lines) + "\n"

    def arguments(self, rng: np.random.Generator, form: int) -> list[Any]:
        """Arguments for ``POINTS`` threads, whose rows fit or, for other forms, do not."""
        found: list[Any] = [
            rng.integers(0, 4, POINTS).astype(np.int32),
            rng.integers(0, POINTS, POINTS).astype(np.int32),
            rng.uniform(-3, 3, POINTS).astype(self.dtype),
        ]
        for number, name in enumerate(ARRAYS):
            *outer, last = self.named[name]
            sides = (2,) if name == "apart" else ()
            shape = (POINTS, *sides, *outer, last + 2 * (form == LONGER and number % 2))
            array = rng.uniform(-3, 3, shape).astype(self.dtype)
            found.append(np.asfortranarray(array) if form == FORTRAN and number % 2 else array)
        return found

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, depth: int) -> None:
        r = self.rng.random()
        if depth < 3 and r < 0.15:
            self.line(depth, f"for t{depth} in range({self.rng.choice(['n[i]', '2'])}):")
            self.block(depth + 1)
        elif depth < 3 and r < 0.3:
            self.line(depth, f"if s < {self.leaf()}:")
            self.block(depth + 1)
        elif r < 0.6:
            self.row(depth, self.target())
        else:
            self.line(depth, self.one())

    def block(self, depth: int) -> None:
        for _ in range(self.rng.randrange(1, 3)):
            self.statement(depth)

    def row(self, depth: int, name: str) -> None:
        """Writes to all elements of a row, in any order; unless it is plain, one of them twice."""
        places = list(product(*map(range, self.named[name])))
        is_plain = name == "apart" and self.rng.random() < 0.7
        if not is_plain:
            places.append(self.rng.choice(places))
        self.rng.shuffle(places)
        for place in places:
            if not is_plain and self.rng.random() < 0.1:
                self.line(depth, self.one())
            value = self.rng.choice(["s", "b", "s + b", "s * D(2)"]) if is_plain else None
            self.line(depth, self.write(name, place, value))

    def write(self, name: str, place: Sequence[int], value: str | None = None) -> str:
        at, value = ", ".join(map(str, place)), value or self.expression()
        if name == "y":
            return f"y[i, {at}] = {value}"
        if name == "apart":
            return f"apart[i, {self.side}, {at}] = {value}"
        index = "i" if name == "z" else "at[i]"
        return f"kc.atomic_add({name}, {index}, {at}, {value})"

    def target(self) -> str:
        return self.rng.choice(["y", "z", "apart", "shared"][: 3 + self.adds])

    def place(self, name: str) -> tuple[int, ...]:
        return tuple(self.rng.randrange(extent) for extent in self.named[name])

    def one(self) -> str:
        name = self.target()
        forms = [
            f"s = {self.expression()}",
            f"b = {self.expression()}",
            f"s += {self.leaf()}",
            self.write(name, self.place(name)),
        ]
        return self.rng.choice(forms)

    def expression(self) -> str:
        one, two = self.leaf(), self.leaf()
        return self.rng.choice([one, f"{one} + {two}", f"{one} * {two}", f"kc.max({one}, {two})"])

    def leaf(self) -> str:
        any_row = "k" if self.has_one_index else "at[i]"
        forms = [
            "s",
            "b",
            "w[i]",
            f"D({self.rng.randrange(-2, 4)})",
            f"x[i, {', '.join(map(str, self.place('x')))}]",
            f"far[{any_row}, {', '.join(map(str, self.place('far')))}]",
            f"y[i, {', '.join(map(str, self.place('y')))}]",
        ]
        return self.rng.choice(forms)
