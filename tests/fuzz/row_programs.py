"""Random kernels of one thread per row, with loops along the rows."""

from __future__ import annotations

from random import Random

from tests.fuzz.loop_programs import ELEMENTS, FLOATS

WIDTH = 43
# Columns before and behind those that loops name.
MARGIN = 2
TYPES = (*FLOATS, "float32", "float16", "int32", "int8")
RANGES = (
    "n", "n", "2, n", "n - 1, -1, -1", "n - 2, 0, -1", "i0, n, 1", "0, n, 2", "m % 19", "0, n - m",
)  # fmt: skip
ROWS = ("i", "i", "i", "at[i]", "i // 2", "49 - i", "(i * m) % 50", "3")
COLUMNS = ("{k}", "{k}", "{k}", "{k} + 1", "{k} - 1", "n + 1 - {k}", "{k} // 2", "at[{k}] % 40")


class RowProgram:
    """Writes one kernel: ``text`` is its source, ``types`` those of its parameters by name."""

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
        self.line(1, f"n, i0 = at.shape[0] - {ELEMENTS - WIDTH + 2 * MARGIN}, m % 3")
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
        self.line(depth, f"for {index} in range({self.rng.choice(RANGES)}):")
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
