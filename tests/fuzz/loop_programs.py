"""Random kernels with loops: over neighbours, added up, and along the row of each thread."""

from __future__ import annotations

from random import Random

POINTS = 37
ELEMENTS = 50
FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, "int32")
LENGTHS = (2, 3, 4)
# The range of the loop, and an index that grows with its iterations.
RANGES = (
    ("start[i], start[i + 1]", "k"),
    ("start[i + 1] - 1, start[i] - 1, -1", "k"),
    ("i % 23", "2 * k + 1"),
    ("i % 29, -1, -1", "k + 7"),
    ("0, i, 3", "k"),
    ("i, -i, -2", "k + 40"),
    ("kc.int64(i % 7), kc.int64(30)", "k * 3"),
    ("kc.uint32(3), kc.uint32(i)", "k - 3"),
    ("kc.uint8(5), kc.uint8(2 * i)", "k + 225"),
)
INDICES = ("at[{k}]", "at[{k}]", "at[{k}] // 2", "(m * m + i) % 50", "(m + 3) % 50", "i // 2")
CONDITIONS = ("p > 0.25", "j % 3 == 0", "m % 2 == 1", "i % 2 == 0", "p > q and j > 9")
STARTS = {True: ("0.0", "-0.0", "1.5", "x[i]"), False: ("0", "3")}
# Of programs along rows.
WIDTH = 43
# Of programs that collect rows.
WIDE = 67
# Columns before and behind those that loops name.
MARGIN = 2
TYPES = (*FLOATS, "float32", "float16", "int32", "int8")
ROW_RANGES = (
    "n", "n", "2, n", "n - 1, -1, -1", "n - 2, 0, -1", "i0, n, 1", "0, n, 2", "m % 19", "0, n - m",
)  # fmt: skip
# Of loops that have more iterations from thread to thread, or fewer.
OWN_RANGES = ("i + 20", "i, n", "n - 1, i, -1")
ROWS = ("i", "i", "i", "at[i]", "i // 2", "49 - i", "(i * m) % 50", "3")
COLUMNS = ("{k}", "{k}", "{k}", "{k} + 1", "{k} - 1", "n + 1 - {k}", "{k} // 2", "at[{k}] % 40")
# Of independent iterations: their range, the trip counts of loops inside, and rows there.
COLUMN_RANGES = ("n", "n", "2, n", "i0, n", "m % 19", "0, n - m", "i - 3")
TRIPS = ("i % 5", "m % 4", "at[i] % 6", "2")
ROWS_INSIDE = ("i", "at[(i + e) % 50]", "at[i]", "(i * e) % 50", "e")


class LoopProgram:
    """Writes one kernel with a loop whose iterations depend on each other by sums alone.

    ``text`` is its source, ``types`` those of its parameters by name.
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.real = self.rng.choice(FLOATS)
        self.length = self.rng.choice(LENGTHS)
        vector = f"kc.vector(length={self.length}, dtype=kc.{self.real})"
        self.types = {"start": "kc.int32", "at": "kc.int32", "x": f"kc.{self.real}", "v": vector}
        self.sums = [self.rng.choice(NUMBERS) for _ in range(self.rng.randint(1, 6))]
        self.lines: list[str] = []
        self.write()

    @property
    def text(self) -> str:
        params = ", ".join(f"{name}: kc.array(dtype={t})" for name, t in self.types.items())
        return "\n".join(["@kc.kernel", f"def kernel({params}):", *self.lines, ""])

    def write(self) -> None:
        """The body of the kernel."""
        pick = self.rng.choice
        self.line(1, "i = kc.tid()")
        self.line(1, "here = v[i]")
        for at, dtype in enumerate(self.sums):
            start = pick(STARTS[dtype in FLOATS])
            self.line(1, f"s{at} = kc.{dtype}({start})")
        extent, index = pick(RANGES)
        self.line(1, f"for k in range({extent}):")
        self.line(2, "m = kc.int32(k)")
        self.line(2, f"j = {pick(INDICES).format(k=index)}")
        self.line(2, "d = v[j] - here")
        self.line(2, f"q = kc.dot(d, d) * x[{pick(('j', 'i', '(j + 1) % 50'))}]")
        self.line(2, f"p = {self.expression('q')}")
        steps = [lambda at=at: self.sum(2, at) for at in range(len(self.sums))]
        steps += [lambda at=at: self.addition(2, at) for at in range(self.rng.randint(0, 3))]
        self.rng.shuffle(steps)
        for step in steps:
            step()
        for at, dtype in enumerate(self.sums):
            self.types[f"out{at}"] = f"kc.{dtype}"
            self.line(1, f"out{at}[i] = s{at}")

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def expression(self, base: str) -> str:
        """A number of the type ``real``."""
        return self.rng.choice(
            (base, f"{base} * d[1]", f"kc.sin({base})", f"({base} - d[0]) / 3.0", f"-{base}")
        )

    def number(self, dtype: str) -> str:
        if dtype == "int32":
            return self.rng.choice(("j", "m % 5", "1", "j * i"))
        text = self.rng.choice(("p", "q", self.expression("p"), "0.1", "-0.0"))
        return f"kc.{dtype}({text})"

    def branch(self, depth: int, then: str, orelse: str | None) -> None:
        """A branch, or a branch in a branch."""
        self.line(depth, f"if {self.rng.choice(CONDITIONS)}:")
        if self.rng.random() < 0.3:
            self.branch(depth + 1, then, orelse)
        else:
            self.line(depth + 1, then)
        if orelse is not None:
            self.line(depth, "else:")
            self.line(depth + 1, orelse)

    def sum(self, depth: int, at: int) -> None:
        """One or two changes of a sum."""
        for _ in range(self.rng.randint(1, 2)):
            first, second = (
                f"s{at} {self.rng.choice(('+=', '-='))} {self.number(self.sums[at])}" for _ in "ab"
            )
            if self.rng.random() < 0.4:
                self.branch(depth, first, self.rng.choice((None, second)))
            else:
                self.line(depth, first)

    def addition(self, depth: int, at: int) -> None:
        """An addition to elements of an array of its own."""
        dtype, kind = self.rng.choice(NUMBERS), self.rng.randint(0, 2)
        name, index = f"sum{at}", self.rng.choice(("j", "j", "(j + i) % 50", "m % 50", "i"))
        value = self.number(dtype)
        if kind == 0 and dtype in FLOATS:
            dtype = self.real
            self.types[name] = self.types["v"]
            value = self.rng.choice(("d", "q * d", "d - here"))
        else:
            self.types[name] = f"kc.{dtype}"
        text = f"kc.atomic_add({name}, {index}, {value})"
        if self.rng.random() < 0.4:
            self.branch(depth, text, None)
        else:
            self.line(depth, text)


class RowProgram:
    """Writes one kernel of one thread per row, with loops along the rows.

    ``text`` is its source, ``types`` those of its parameters by name.
    """

    width = WIDTH

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.types: dict[str, str] = {"at": "kc.int32"}
        self.matrices: dict[str, str] = {}
        self.lines: list[str] = []
        self.inputs = [self.matrix("x") for _ in range(self.rng.randint(1, 3))]
        self.outputs = [self.matrix("y") for _ in range(self.rng.randint(1, 2))]
        self.carried = [self.rng.choice(FLOATS) for _ in range(self.rng.randint(1, 3))]
        self.write()

    @property
    def text(self) -> str:
        params = [f"{name}: kc.array(dtype={t})" for name, t in self.types.items()]
        params += [f"{name}: kc.array2d(dtype=kc.{t})" for name, t in self.matrices.items()]
        head = f"def kernel({', '.join(params)}, m: int):"
        return "\n".join(["@kc.kernel", head, *self.lines, ""])

    def matrix(self, prefix: str) -> str:
        name = f"{prefix}{len(self.matrices)}"
        self.matrices[name] = self.rng.choice(TYPES)
        return name

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def write(self) -> None:
        """The body of the kernel."""
        self.line(1, "i = kc.tid()")
        self.line(1, f"n, i0 = at.shape[0] - {ELEMENTS - self.width + 2 * MARGIN}, m % 3")
        for at, dtype in enumerate(self.carried):
            self.line(1, f"s{at} = kc.{dtype}({self.rng.choice(('0.0', '1.5', '-0.0'))})")
        for number in range(self.rng.randint(1, 3)):
            depth = 1
            if self.rng.random() < 0.25:
                self.line(1, f"if i % {self.rng.randint(2, 5)} != 1:")
                depth = 2
            self.loop(depth, f"k{number}")
        for at, dtype in enumerate(self.carried):
            self.types[f"out{at}"] = f"kc.{dtype}"
            self.line(1, f"out{at}[i] = s{at}")

    def loop(self, depth: int, index: str) -> None:
        """A loop along rows, at times with another one inside."""
        self.line(depth, f"for {index} in range({self.rng.choice(ROW_RANGES)}):")
        self.line(depth + 1, f"j = kc.int32({index}) + {MARGIN}")
        name = self.rng.choice((index, "j"))
        if depth == 1 and self.rng.random() < 0.25:
            self.steps(depth + 1, name)
            self.loop(depth + 1, f"{index}b")
        self.steps(depth + 1, name)

    def steps(self, depth: int, index: str) -> None:
        for _ in range(self.rng.randint(1, 3)):
            step = self.rng.choice((self.carry, self.carry, self.store, self.store, self.add))
            if self.rng.random() < 0.2:
                self.line(depth, f"if {self.value(index, 'float32')} > 0.25:")
                step(depth + 1, index)
            else:
                step(depth, index)

    def element(self, matrix: str, index: str) -> str:
        column = self.rng.choice(COLUMNS).format(k=index)
        return f"{matrix}[{self.rng.choice(ROWS)}, {column} + {MARGIN - 1}]"

    def value(self, index: str, dtype: str) -> str:
        """A number of type ``dtype``, mostly made of elements of rows."""
        matrix = self.rng.choice(self.inputs)
        text = f"kc.{dtype}({self.element(matrix, index)})"
        return self.rng.choice((text, text, f"{text} * {text}", f"kc.{dtype}(j)"))

    def carry(self, depth: int, index: str) -> None:
        """A change of a carried value: a sum, an extremum or a recurrence."""
        at = self.rng.randrange(len(self.carried))
        dtype = self.carried[at]
        text = self.rng.choice(
            ("s{at} += {v}", "s{at} = kc.max(s{at}, {v})", "s{at} = 0.5 * s{at} + {v}",
             "s{at} -= kc.sin({v})")
        )  # fmt: skip
        self.line(depth, text.format(at=at, v=self.value(index, dtype)))

    def own(self, index: str) -> tuple[str, str]:
        """An element of the thread's own row, and its type."""
        matrix = self.rng.choice(self.outputs)
        return f"{matrix}[i, {self.rng.choice((index, index, 'j'))}]", self.matrices[matrix]

    def store(self, depth: int, index: str) -> None:
        target, dtype = self.own(index)
        at = self.rng.randrange(len(self.carried))
        value = self.rng.choice((self.value(index, dtype), f"kc.{dtype}(s{at})"))
        self.line(depth, f"{target} = {value}")
        if self.rng.random() < 0.3:
            self.line(depth, f"s{at} += kc.{self.carried[at]}({target})")

    def add(self, depth: int, index: str) -> None:
        target, dtype = self.own(index)
        self.line(depth, f"{target} += {self.value(index, dtype)}")


class CollectingProgram(RowProgram):
    """Writes one kernel of one thread per row, with loops that collect sums and extrema of it."""

    width, ranges = WIDE, ROW_RANGES
    # The index of the loop around the one that is being written.
    outer = ""

    def write(self) -> None:
        self.collecting = [
            self.rng.choice(
                ("s{at} += {v}", "s{at} -= {v}", "s{at} = kc.max(s{at}, {v})",
                 "s{at} = kc.min({v}, s{at})")
            )
            for _ in self.carried
        ]  # fmt: skip
        super().write()

    def loop(self, depth: int, index: str) -> None:
        """A loop along rows, at times with stores to the row, or inside of another loop."""
        self.outer = f"{index}a" if self.rng.random() < 0.2 else ""
        if self.outer:
            self.line(depth, f"for {self.outer} in range({self.rng.choice(('2', 'm % 4', 'i0'))}):")
            depth += 1
        self.line(depth, f"for {index} in range({self.rng.choice(self.ranges)}):")
        self.line(depth + 1, f"j = kc.int32({index}) + {MARGIN}")
        name = self.rng.choice((index, "j"))
        for _ in range(self.rng.randint(1, 3)):
            self.carry(depth + 1, name)
        if self.rng.random() < 0.2:
            self.store(depth + 1, name)

    def carry(self, depth: int, index: str) -> None:
        """A term of the sum, or the extremum, of a carried value."""
        at = self.rng.randrange(len(self.carried))
        value = self.value(index, self.carried[at])
        self.line(depth, self.collecting[at].format(at=at, v=value))

    def element(self, matrix: str, index: str) -> str:
        column = f"{self.rng.choice(('{k}', '{k}', '{k} + 1', '3'))} + {MARGIN - 1}"
        rows = (*ROWS, *[f"(i + {self.outer}) % 50"] * 4) if self.outer else ROWS
        return f"{matrix}[{self.rng.choice(rows)}, {column.format(k=index)}]"


class OwnLengthProgram(CollectingProgram):
    """Writes one kernel with loops along rows, whose length differs among threads."""

    ranges = OWN_RANGES


class ColumnProgram(RowProgram):
    """Writes one kernel of one thread per row, with loops whose iterations are independent.

    They access elements beside each other, or share them.
    """

    def write(self) -> None:
        """The body of the kernel."""
        self.line(1, "i = kc.tid()")
        self.line(1, f"n, i0 = at.shape[0] - {ELEMENTS - self.width + 2 * MARGIN}, m % 3")
        for number in range(self.rng.randint(1, 2)):
            self.columns(f"k{number}")

    def columns(self, index: str) -> None:
        """A loop of independent iterations."""
        dtype = self.rng.choice(FLOATS)
        self.line(1, f"for {index} in range({self.rng.choice(COLUMN_RANGES)}):")
        self.line(2, f"j = kc.int32({index}) + {MARGIN}")
        self.line(2, f"v = kc.{dtype}({self.rng.choice(('0.0', '-0.0', 'i', index))})")
        for _ in range(self.rng.randint(0, 2)):
            self.line(2, f"for e in range({self.rng.choice(TRIPS)}):")
            self.line(3, f"w = kc.{dtype}({self.inside()})")
            for _ in range(self.rng.randint(1, 2)):
                step = self.rng.choice(
                    ("v += w", "v -= w * w", "v = kc.max(v, w)", "w = kc.sin(w)")
                )
                guard = self.rng.choice(("", "", "if w > 0.25: ", "if e > i % 3: "))
                self.line(3, f"{guard}{step}")
        # The last one is not guarded: the loop has an effect.
        for guarded in range(self.rng.randint(0, 1), -1, -1):
            matrix = self.rng.choice(self.outputs)
            target, stored = f"{matrix}[i, j]", f"kc.{self.matrices[matrix]}"
            value = self.rng.choice((f"{stored}(v)", f"{target} + {stored}(v)"))
            guard = self.rng.choice(("", "if v > 0.5: ", "if i % 3 == 1: ", "if j > 9: "))
            self.line(2, f"{guard if guarded else ''}{target} = {value}")

    def inside(self) -> str:
        """An element that a loop inside reads."""
        column = self.rng.choice(("j", "j", "j + 1", "j - 2", "3", "i0", "e"))
        return f"{self.rng.choice(self.inputs)}[{self.rng.choice(ROWS_INSIDE)}, {column}]"
