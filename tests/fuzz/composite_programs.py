"""Random kernels of vectors, structs and views as source text, for their derivatives."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kernelcore as kc
from tests.fuzz.programs import POINTS, ROW, Generator, advance, define, nudge, ordered, settle

HEADER = """\
def kernel_{seed}(
    x: V, w: kc.vec3d, n: I, idx: AI, b: Body, bodies: AB, o: V, h: A2, t: V, top: A, y: A
):
    i = kc.tid()
    m = n + idx[i]
    row = h[i]
    q = bodies[i]
    u = x[i]
    v = w * q.mass
    a = u.x
    c = b.mass
    y[i] = c
"""


@kc.struct
class Body:
    position: kc.vec3d
    velocity: kc.vec3d
    mass: kc.float64


@kc.func
def squash(v: kc.vec3d) -> kc.vec3d:
    return v / (1.0 + kc.dot(v, v))


@kc.func
def moved(body: Body, h: kc.float64) -> Body:
    if h < 0.1:
        body.mass *= kc.cos(h)
        return body
    body.position = squash(body.position + h * body.velocity)
    return body


@kc.func
def smooth(row: kc.array(dtype=kc.float64), s: kc.float64) -> kc.float64:
    last = s
    for k in range(len(row)):
        if row[k] > 1.5:
            break
        row[k] = kc.sin(row[k] * s + 0.5 * last)
        last = row[k]
    return last


@dataclass
class CompositeGenerator(Generator):
    """Writes one kernel; ``vectors`` are the names that are set on every path."""

    floats: list[str] = field(default_factory=lambda: ["a", "c"])
    vectors: list[str] = field(default_factory=lambda: ["u", "v"])

    def place(self) -> str:
        """An index of a component."""
        return self.rng.choice(["0", "1", "2", "(m * m) % 3", "idx[i] % 3"])

    def places(self) -> list[str]:
        """Elements of this thread, components and fields."""
        column = self.rng.randrange(ROW)
        return [f"h[i, {column}]", "o[i].y", "q.mass", "q.velocity.z", "u.x", "v[m % 3]"]

    def row(self) -> str:
        """A view of the elements of ``h`` that belong to this thread."""
        return self.rng.choice(["row", "h[i]", "h[i, ::-1]", "row[1:]", "h[:, 1:][i]", "row[::-2]"])

    def leaf(self) -> str:
        vector = self.vector_leaf()
        return self.rng.choice(
            [
                *self.floats,
                *self.floats,
                f"{vector}.{self.rng.choice('xyz')}",
                f"{vector}[{self.place()}]",
                f"{self.row()}[{self.rng.randrange(2)}]",
                "q.mass",
                "b.mass",
                "bodies[i].mass",
                "0.7",
            ]
        )

    def expression(self, depth: int = 0) -> str:
        if depth < 2 and self.rng.random() < 0.2:
            one, two = self.vector(depth + 1), self.vector(depth + 1)
            return self.rng.choice(
                [f"kc.dot({one}, {two})", f"kc.length({one} + kc.vec3d(3.0))", f"squash({one}).y"]
            )
        return super().expression(depth)

    def vector_leaf(self) -> str:
        arrays = ["x[i]", "x[idx[i]]", "o[i]", "bodies[i].velocity", "bodies[i].position"]
        values = ["w", "b.position", "b.velocity", "q.position", "q.velocity"]
        return self.rng.choice([*self.vectors, *self.vectors, *arrays, *values])

    def vector(self, depth: int = 0) -> str:
        r = self.rng.random()
        if depth > 2 or r < 0.3:
            return self.vector_leaf()
        one, two = self.vector(depth + 1), self.vector(depth + 1)
        scalar = f"kc.sin({self.expression(depth + 1)})"
        forms = [
            f"({one} {self.rng.choice('+-')} {two})",
            f"{scalar} * {one}",
            f"kc.cross({one}, {two})",
            f"kc.cw_mul({one}, squash({two}))",
            f"kc.vec3d({scalar}, {self.leaf()}, {self.leaf()})",
            f"kc.lerp({one}, {two}, {scalar})",
            f"({one} if {self.condition()} else {two})",
            f"kc.outer({one}, squash({two})) * {self.vector_leaf()}",
            f"kc.max({one}, {two})",
        ]
        return self.rng.choice(forms)

    def block(self, depth: int, in_loop: bool) -> None:
        known = list(self.vectors)
        super().block(depth, in_loop)
        self.vectors = known

    def assign(self, depth: int, in_loop: bool) -> None:
        r, name = self.rng.random(), self.rng.choice(self.vectors)
        if r < 0.3:
            super().assign(depth, in_loop)
        elif r < 0.5:
            target = self.name("p") if self.rng.random() < 0.5 else name
            self.line(depth, f"{target} = squash({self.vector()})")
            self.vectors += [target] if target not in self.vectors else []
        elif r < 0.6:
            self.line(depth, f"{name} {self.rng.choice('+-')}= squash({self.vector()})")
        elif r < 0.8:
            operator = self.rng.choice(["=", "+=", "*="])
            self.line(depth, f"{name}[{self.place()}] {operator} kc.sin({self.expression()})")
        elif r < 0.9:
            self.line(depth, f"q.{self.rng.choice(['position', 'velocity'])} = {name}")
            self.line(depth, f"q.mass *= kc.cos({self.expression()})")
        else:
            self.line(
                depth, f"q = moved({self.rng.choice(['q', 'b', 'bodies[i]'])}, {self.leaf()})"
            )

    def scatter(self, depth: int, in_loop: bool) -> None:
        place, operator = self.rng.choice(["idx[i]", "0", "(i + m) % 3"]), self.rng.choice("+-")
        forms = [
            f"kc.atomic_add(t, {place}, squash({self.vector()}))",
            f"t[{place}] {operator}= {self.vector()}",
            f"t[{place}].{self.rng.choice('xyz')} {operator}= {self.expression()}",
            f"kc.atomic_min(top, {place}, {self.expression()})",
        ]
        self.line(depth, self.rng.choice(forms))

    def store(self, depth: int, in_loop: bool) -> None:
        name = self.rng.choice(self.vectors)
        part = self.rng.choice(["position", "velocity"])
        value = f"kc.cos({self.expression()})"
        texts = [
            f"o[i] = {name}",
            f"o[i] += squash({self.vector()})",
            f"o[i][{self.place()}] *= {value}",
            f"o[i].y = {value}",
            "bodies[i] = q",
            f"bodies[i].{part} = squash({self.vector()})",
            f"bodies[i].{part}.z += {value}",
            f"bodies[i].{part}[{self.place()}] *= {value}",
            f"bodies[i].mass *= {value}",
            f"{self.row()}[{self.rng.randrange(2)}] = {value}",
            f"{self.row()}[idx[i] % 2] *= {value}",
            f"{self.rng.choice(self.floats)} = smooth({self.row()}, {value})",
        ]
        self.line(depth, self.rng.choice(texts))


def source(seed: int) -> str:
    """The text of kernel ``seed``."""
    generator = CompositeGenerator(random.Random(seed))
    for _ in range(5):
        generator.statement(1, False)
    result = " + ".join(
        [
            *generator.floats,
            *(f"kc.dot({v}, w)" for v in generator.vectors),
            "q.mass * q.position.x",
        ]
    )
    return HEADER.format(seed=seed) + "\n".join(generator.lines) + f"\n    y[i] = {result}\n"


def kernel(seed: int) -> kc.Kernel:
    """Kernel ``seed``."""
    names = {
        "kc": kc,
        "A": kc.array(dtype=kc.float64),
        "A2": kc.array2d(dtype=kc.float64),
        "V": kc.array(dtype=kc.vec3d),
        "AI": kc.array(dtype=int),
        "AB": kc.array(dtype=Body),
        "I": kc.int32,
        "Body": Body,
        "squash": squash,
        "moved": moved,
        "smooth": smooth,
        "settle": settle,
        "ordered": ordered,
        "nudge": nudge,
        "advance": advance,
    }
    return kc.kernel(define(source(seed), seed, names))


def arguments(seed: int) -> list[Any]:
    """Arguments for kernel ``seed``, one per parameter of the IR but y."""
    rng = np.random.default_rng(seed)

    def random_array(*shape: int) -> np.ndarray:
        return rng.uniform(-1.0, 1.0, shape)

    return [
        random_array(POINTS, 3),
        random_array(3),
        int(rng.integers(0, 3)),
        rng.integers(0, POINTS, POINTS).astype(np.int32),
        random_array(3),
        random_array(3),
        float(rng.uniform(-1.0, 1.0)),
        random_array(POINTS, 3),
        random_array(POINTS, 3),
        random_array(POINTS),
        random_array(POINTS, 3),
        random_array(POINTS, ROW),
        random_array(POINTS, 3),
        random_array(POINTS),
    ]
