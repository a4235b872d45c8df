"""Random kernels as source text: loops, branches, early exits, in-place arrays, atomics."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kernelcore as kc

HEADER = """\
def kernel_{seed}(x: A, w: kc.float64, n: I, idx: AI, o: A, h: A2, t: A, top: A, y: A):
    i = kc.tid()
    m = n + idx[i]
    a = x[i]
    b = w * a
    y[i] = b
"""
POINTS, ROW = 3, 4


@kc.func
def settle(a: kc.float64, n: kc.int32) -> kc.float64:
    for k in range(n):
        j = 0
        while j < k and a < 1.5:
            j += 1
            if a * a > 0.9:
                return a * kc.cos(a)
            a += 0.2 * kc.sin(a)
        if a < -0.8:
            break
        a = kc.sin(a) + 0.3
    return a * a


@kc.func
def ordered(a: kc.float64, b: kc.float64):
    if a > b:
        return kc.sin(a), b
    return b * a, kc.cos(a - b)


@kc.func
def nudge(x: kc.ref[kc.float64], by: kc.float64):
    if by > 0.6:
        x = kc.sin(by)
        return
    for _ in range(2):
        x += 0.3 * kc.cos(x * by)


@kc.func
def advance(x: kc.ref[kc.float64], y: kc.ref[kc.float64]) -> kc.float64:
    old = x
    x = 0.5 * y + 0.2 * kc.sin(x)
    nudge(y, old)
    return old * y


def nudged(x: float, by: float) -> float:
    """``nudge`` of plain Python, which returns what a call assigns."""
    if by > 0.6:
        return np.sin(by)
    for _ in range(2):
        x += 0.3 * np.cos(x * by)
    return x


def advanced(x: float, y: float) -> tuple[float, float, float]:
    """``advance`` of plain Python: the result, and what a call assigns."""
    changed = nudged(y, x)
    return x * changed, 0.5 * y + 0.2 * np.sin(x), changed


# What stands before it is for kernels, and after it for plain Python.
_IN_PYTHON = "  # in Python: "


@dataclass
class Generator:
    """Writes one kernel; ``floats`` are the names that are set on every path."""

    rng: random.Random
    lines: list[str] = field(default_factory=list[str])
    floats: list[str] = field(default_factory=lambda: ["a", "b"])
    fresh: int = 0
    budget: int = 14

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def expression(self, depth: int = 0) -> str:
        r = self.rng.random()
        if depth > 2 or r < 0.25:
            return self.leaf()
        one = self.expression(depth + 1)
        if r < 0.45:
            return f"kc.{self.rng.choice(['sin', 'cos', 'tanh', 'atan'])}({one})"
        two = self.expression(depth + 1)
        if r < 0.6:
            return f"({one} * kc.sin({two}))"
        if r < 0.75:
            return f"({one} {self.rng.choice('+-')} {two})"
        if r < 0.85:
            return f"({one} / (1.5 + {two} * {two}))"
        if r < 0.87:
            return f"settle({one}, m)"
        if r < 0.92:
            return f"kc.{self.rng.choice(['min', 'max'])}({one}, {two})"
        return f"({one} if {self.condition()} else {two})"

    def leaf(self) -> str:
        arrays = ["x[i]", "x[idx[i]]", "w", "o[i]", f"h[i, {self.rng.randrange(ROW)}]"]
        return self.rng.choice([*self.floats, *self.floats, *arrays, "0.7", "-0.3"])

    def condition(self) -> str:
        value = self.rng.choice(self.floats)
        limit = round(self.rng.uniform(-0.8, 0.8), 3)
        test = f"{value} {self.rng.choice('<>')} {limit}"
        # Numbers are conditions.
        return self.rng.choice([test] * 6 + [f"m and {test}", f"m & 1 or {test}", "not m"])

    def block(self, depth: int, in_loop: bool) -> None:
        known = list(self.floats)
        for _ in range(self.rng.randint(1, 3)):
            self.statement(depth, in_loop)
        self.floats = known

    def statement(self, depth: int, in_loop: bool) -> None:
        self.budget -= 1
        choices: list[Callable[[int, bool], None]] = [self.assign, self.store, self.assign]
        choices.append(self.rng.choice([self.update, self.update, self.local_array]))
        choices.append(self.scatter if self.rng.random() < 0.7 else self.store)
        if depth < 4 and self.budget > 0:
            choices += [self.branch, self.for_loop, self.while_loop, self.tuple_loop]
        if in_loop:
            choices.append(self.leave)
        elif depth == 2 and self.rng.random() < 0.3:
            choices.append(self.give_up)
        self.rng.choice(choices)(depth, in_loop)

    def assign(self, depth: int, in_loop: bool) -> None:
        r = self.rng.random()
        if r < 0.1:
            first, second = self.name("v"), self.name("v")
            pair = f"{self.leaf()}, {self.expression()}"
            if self.rng.random() < 0.5:
                name = self.name("q")
                self.line(depth, f"{name} = ({pair})")
                pair = f"*{name}"
            self.line(depth, f"{first}, {second} = ordered({pair})")
            self.floats += [first, second]
        elif r < 0.4:
            target = self.name("v")
            self.line(depth, f"{target} = {self.expression()}")
            self.floats.append(target)
        else:
            target = self.rng.choice(self.floats)
            operator = self.rng.choice(["=", "+=", "-=", "*="])
            self.line(depth, f"{target} {operator} kc.sin({self.expression()})")

    def places(self) -> list[str]:
        """Elements of this thread."""
        return ["o[i]", f"h[i, {self.rng.randrange(ROW)}]"]

    def update(self, depth: int, in_loop: bool) -> None:
        """A call that assigns its arguments: variables, or elements of this thread."""
        first, second = self.rng.sample([*self.floats, *self.places()], 2)
        if self.rng.random() < 0.6:
            value = self.expression(1)
            call, meant = f"nudge({first}, {value})", f"{first} = nudged({first}, {value})"
        else:
            result = self.name("v")
            call = f"{result} = advance({first}, {second})"
            meant = f"{result}, {first}, {second} = advanced({first}, {second})"
            self.floats.append(result)
        self.line(depth, f"{call}{_IN_PYTHON}{meant}")

    def local_array(self, depth: int, in_loop: bool) -> None:
        """An array of this thread."""
        name = self.name("z")
        self.line(depth, f"{name} = kc.zeros(3, dtype=kc.float64)")
        self.line(depth, f"{name}[m % 3] += kc.sin({self.expression()})")
        self.line(depth, f"{name}[1] -= {self.leaf()} * {name}[(m + 1) % 3]")
        self.floats += [f"{name}[{k}]" for k in self.rng.sample(range(3), 2)]

    def tuple_loop(self, depth: int, in_loop: bool) -> None:
        """A loop over values."""
        value, values = self.name("u"), ", ".join(self.expression(2) for _ in range(2))
        self.line(depth, f"for {value} in ({values}, 0.4):")
        self.line(depth + 1, f"{self.rng.choice(self.floats)} += 0.2 * kc.sin({value})")
        self.block(depth + 1, True)

    def store(self, depth: int, in_loop: bool) -> None:
        target = self.rng.choice(["o[i]", "h[i, k]", f"h[i, {self.rng.randrange(ROW)}]"])
        if "k" in target:
            row = f"h[i, {self.rng.randrange(ROW)}]"
            target = row if not in_loop else f"h[i, (m * m) % {ROW}]"
        operator = self.rng.choice(["=", "*=", "*=", "+="])
        self.line(depth, f"{target} {operator} kc.cos({self.expression()})")

    def scatter(self, depth: int, in_loop: bool) -> None:
        """An atomic on an element that several threads may meet at."""
        place, value = self.rng.choice(["idx[i]", "0", "(i + m) % 3"]), self.expression()
        forms = [
            f"kc.atomic_add(t, {place}, {value})",
            f"kc.atomic_sub(t, {place}, {value})",
            f"kc.atomic_max(top, {place}, {value})",
        ]
        self.line(depth, self.rng.choice(forms))

    def branch(self, depth: int, in_loop: bool) -> None:
        self.line(depth, f"if {self.condition()}:")
        self.block(depth + 1, in_loop)
        if self.rng.random() < 0.6:
            self.line(depth, "else:")
            self.block(depth + 1, in_loop)

    def for_loop(self, depth: int, in_loop: bool) -> None:
        index = self.name("k")
        bounds = self.rng.choice(["m", "1, m + 1", "m, -1, -1", "3", "0, 2 * m, 2"])
        loop = f"range({bounds})"
        loop = f"reversed({loop})" if self.rng.random() < 0.2 else loop
        self.line(depth, f"for {index} in {loop}:")
        scale = f"0.1 * kc.float64({index})"
        self.line(depth + 1, f"{self.rng.choice(self.floats)} += {scale}")
        self.block(depth + 1, True)

    def while_loop(self, depth: int, in_loop: bool) -> None:
        counter = self.name("j")
        self.line(depth, f"{counter} = 0")
        self.line(depth, f"while {counter} < m and {self.rng.choice(self.floats)} < 2.0:")
        self.line(depth + 1, f"{counter} += 1")
        self.block(depth + 1, True)

    def leave(self, depth: int, in_loop: bool) -> None:
        self.line(depth, f"if {self.condition()}:")
        self.line(depth + 1, self.rng.choice(["break", "continue", "continue", "return"]))

    def give_up(self, depth: int, in_loop: bool) -> None:
        self.line(depth, "return")


def source(seed: int, statements: int = 5) -> str:
    """The text of kernel ``seed``, with so many statements besides nested ones."""
    generator = Generator(random.Random(seed))
    for _ in range(statements):
        generator.statement(1, False)
    result = " + ".join(generator.floats)
    return HEADER.format(seed=seed) + "\n".join(generator.lines) + f"\n    y[i] = {result}\n"


def define(text: str, seed: int, namespace: dict[str, Any]) -> Callable[..., None]:
    """The Python function that ``text`` defines, with its source on record."""
    file = f"<kernel {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), namespace)
    return namespace[f"kernel_{seed}"]


def kernel(seed: int, statements: int = 5) -> kc.Kernel:
    """Kernel ``seed``; see ``source``."""
    types = {
        "kc": kc,
        "A": kc.array(dtype=kc.float64),
        "A2": kc.array2d(dtype=kc.float64),
        "AI": kc.array(dtype=int),
        "I": kc.int32,
        "settle": settle,
        "ordered": ordered,
        "nudge": nudge,
        "advance": advance,
    }
    return kc.kernel(define(source(seed, statements), seed, types))


class HostLanguage:
    """Stands for kernelcore when the text runs as plain Python: one grid point at a time."""

    def __init__(self) -> None:
        self.point = 0

    def tid(self) -> int:
        return self.point

    def zeros(self, count: int, dtype: object) -> Any:
        return np.zeros(count)

    def atomic_add(self, array: Any, index: int, value: float) -> None:
        array[index] += value

    def atomic_sub(self, array: Any, index: int, value: float) -> None:
        array[index] -= value

    def atomic_max(self, array: Any, index: int, value: float) -> None:
        array[index] = max(array[index], value)

    def __getattr__(self, name: str) -> Any:
        return getattr(kc, name)


def _for_python(line: str) -> str:
    """``line`` with what it means in plain Python, where that is said."""
    indent = line[: len(line) - len(line.lstrip())]
    code, mark, meant = line.partition(_IN_PYTHON)
    return f"{indent}{meant}" if mark else code


def run_in_python(seed: int, args: list[Any]) -> None:
    """Run kernel ``seed`` as plain Python over ``POINTS`` grid points, on ``args`` in place."""
    language = HostLanguage()
    names = {"kc": language, "settle": settle, "ordered": ordered}
    names |= {"nudged": nudged, "advanced": advanced}
    names.update(dict.fromkeys(("A", "A2", "AI", "I")))
    lines = [_for_python(line) for line in source(seed).splitlines(keepends=True)]
    function = define("".join(lines), seed, names)
    for language.point in range(POINTS):
        function(*args)


def arguments(seed: int) -> list[Any]:
    """Arguments x, w, n, idx, o, h, t, top for kernel ``seed``."""
    rng = np.random.default_rng(seed)
    return [
        rng.uniform(-1.0, 1.0, POINTS),
        float(rng.uniform(-1.0, 1.0)),
        int(rng.integers(0, 3)),
        rng.integers(0, POINTS, POINTS).astype(np.int32),
        rng.uniform(-1.0, 1.0, POINTS),
        rng.uniform(-1.0, 1.0, (POINTS, ROW)),
        rng.uniform(-1.0, 1.0, POINTS),
        rng.uniform(-1.0, 0.2, POINTS),
    ]
