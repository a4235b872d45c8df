"""Random kernels of private vectors as source text, whose threads compute components alike."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

POINTS = 5

HEADER = """\
@kc.kernel
def kernel(
    n: kc.int32, x: kc.array1d[V], w: kc.array1d[V], m: kc.array2d[D],
    total: kc.array1d[V], rows: kc.array2d[D], y: kc.array1d[V], z: kc.array1d[D],
):
    i = kc.tid()
    a = x[i]
    b = w[0]
    c = w[1]
    s = D(0)
"""


class PackProgram:
    """Program ``seed``: ``text`` defines ``kernel`` where ``D`` and ``V`` are its types.

    Attributes:
        dtype: The name of the type of components.
        length: How many components vectors have.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtype = self.rng.choice(["float32", "float64", "float64", "int32"])
        self.length = self.rng.randrange(2, 19)
        self.lines: list[str] = []
        for _ in range(4):
            self.statement(1)
        self.text = HEADER + "\n".join(self.lines) + "\n    y[i] = a\n    z[i] = s + b[0] + c[1]\n"

    def arguments(self, rng: np.random.Generator) -> list[Any]:
        """Arguments for ``POINTS`` threads."""
        shapes = [
            (POINTS, self.length),
            (3, self.length),
            (POINTS, self.length),
            (2, self.length),
            (2, self.length),
            (POINTS, self.length),
            (POINTS,),
        ]
        values = [rng.uniform(-3, 3, shape).astype(self.dtype) for shape in shapes]
        return [int(rng.integers(4)), *values]

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, depth: int) -> None:
        r = self.rng.random()
        if depth < 3 and r < 0.25:
            self.line(depth, f"for t{depth} in range({self.rng.choice(['n', '2', 'n - 1'])}):")
            self.block(depth + 1)
        elif depth < 3 and r < 0.35:
            self.line(depth, f"if s < {self.leaf('0')}:")
            self.block(depth + 1)
        elif r < 0.5:
            self.whole(depth)
        else:
            self.line(depth, f"for j in range({self.length}):")
            for _ in range(self.rng.randrange(1, 5)):
                self.component(depth + 1)

    def block(self, depth: int) -> None:
        for _ in range(self.rng.randrange(1, 3)):
            self.statement(depth)

    def whole(self, depth: int) -> None:
        """A statement on whole vectors."""
        one, two = self.rng.choice("abc"), self.rng.choice("abc")
        forms = [
            f"{one} = {two} + {self.rng.choice('abc')}",
            f"{one} = x[i] * {self.leaf('0')}",
            f"{one}, {two} = {two}, {one}",
            f"kc.atomic_add(total, i % 2, {one})",
            f"s += {one}[0] * {two}[{self.length - 1}]",
        ]
        self.line(depth, self.rng.choice(forms))

    def component(self, depth: int) -> None:
        """A statement on component ``j``."""
        target = self.rng.choice("abc")
        forms = [
            f"{target}[j] = {self.expression('j')}",
            f"{target}[j] = {self.expression('j')}",
            f"{target}[j] += {self.expression('j')}",
            f"s += {self.expression('j')}",
            f"m[i, j] = {self.expression('j')}",
            f"kc.atomic_add(rows, i % 2, j, {self.expression('j')})",
            f"kc.atomic_add(total, 1, {target})" if self.rng.random() < 0.2 else f"{target}[j] = s",
            f"s, {target}[j] = {target}[j], s",
        ]
        self.line(depth, self.rng.choice(forms))

    def expression(self, at: str, depth: int = 0) -> str:
        if depth > 2 or self.rng.random() < 0.25:
            return self.leaf(at)
        one, two = self.expression(at, depth + 1), self.expression(at, depth + 1)
        forms = [
            f"({one} {self.rng.choice('+-*')} {two})",
            f"kc.where({one} < {two}, {one}, {two})",
        ]
        if self.dtype == "int32":
            return self.rng.choice([*forms, f"({one} // {two})"])
        return self.rng.choice([*forms, f"kc.sin({one})", f"kc.exp(-kc.abs({one}))"])

    def leaf(self, at: str) -> str:
        last = self.length - 1
        forms = [f"{v}[{at}]" for v in "abc"]
        forms += [f"a[{last} - {at}]", "b[0]", f"m[i, {at}]", f"w[2][{at}]", "s", "D(2)", "c[1]"]
        return self.rng.choice(forms)
