"""Random kernels over grids of one to three axes.

Each thread stores to its own elements alone, and what threads add to shared elements adds up
exactly, so that results depend on no order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.fuzz.palette import GridArray

# Extents of launches, by their number.
Grids = Sequence[Sequence[tuple[int, ...]]]
GRIDS = (
    ((37,), (5,), (70,), (150,), (1,)),
    ((5, 19), (40, 3), (3, 50), (12, 1), (1, 33), (9, 16)),
    ((2, 3, 17), (4, 5, 3), (3, 1, 20)),
)
# Launches over these have several threads.
LARGE_GRIDS = (
    ((700,), (1027,), (300,)),
    ((40, 33), (300, 5), (6, 200), (2, 700)),
    ((6, 10, 20), (3, 300, 2)),
)
INDICES = ("i", "j", "k")
REALS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
TYPES = (*REALS, "int32", "int32", "int8", "uint8", "uint32", "int64", "bool")
SUMMED = ("float32", "float64", "int32", "uint8")
# The extents of rows that threads walk along, of the table of indices, and of shared elements.
WIDTH, TABLE, SHARED = 21, 11, 7
# Elements of a private array.
PRIVATE = 6

DEFINITIONS = """\
Private = kc.vector(6, kc.{real})
@kc.struct
class Pair:
    first: kc.{real}
    second: kc.vec3i
@kc.func
def blend(a: kc.{real}, b: kc.{real}, n: int):
    if n % 3 == 1:
        return a
    for q in range(n % 4):
        a = a * b + kc.{real}(0.5)
    return a - b
@kc.func
def both(a: kc.{real}, b: kc.{real}):
    return kc.min(a, b), kc.max(a, b)
"""


class GridProgram:
    """Writes one kernel.

    Attributes:
        text: Its source.
        grid: The extents of the launch.
        arrays: Its array parameters; those named y and t are written.
        unrolled: What unrolled loops go over.
    """

    unrolled: tuple[str, ...] = ("range(3)", "kc.static((1, 4))")

    def __init__(self, seed: int, grids: Grids = GRIDS) -> None:
        self.rng = rng = Random(f"grid {seed}")
        rank = rng.choice((1, 1, 2, 2, 2, 3))
        self.grid: tuple[int, ...] = rng.choice(grids[rank - 1])
        self.indices = INDICES[:rank]
        self.real = rng.choice(REALS)
        self.prepare()
        every = tuple(range(rank))
        kinds = [every, every, every, (0,), (rank - 1,)]
        pick = rng.choice
        self.inputs = [
            GridArray(f"x{k}", pick(TYPES), pick(kinds), pick((0, 0, 0, 2, 3, 5)))
            for k in range(rng.randint(1, 3))
        ]
        made, added = range(rng.randint(1, 2)), range(rng.randint(0, 2))
        self.outputs = [GridArray(f"y{k}", pick(TYPES), every, pick((0, 0, 0, 3))) for k in made]
        self.sums = [GridArray(f"t{k}", pick(SUMMED), (-1,)) for k in added]
        # Neighbouring threads walk along rows of their own, or along the same one.
        row = GridArray("w", rng.choice(TYPES), (rng.choice((0, rank - 1)),))
        self.rows = [row] if rng.random() < 0.6 else []
        table = GridArray("at", "int32", (-2,))
        self.arrays = [*self.inputs, *self.rows, table, *self.outputs, *self.sums]
        self.finish()

    def prepare(self) -> None:
        """Start without statements."""
        self.lines: list[str] = []
        self.inputs, self.outputs = list[GridArray](), list[GridArray]()
        self.sums, self.rows = list[GridArray](), list[GridArray]()
        # Minima and maxima of one array would depend on the order of threads.
        self.extremum = self.rng.choice(("min", "max"))
        self.reals = ["kc.{real}(c)"]
        self.integers = [*self.indices, *self.indices, "m"]
        self.privates: list[str] = []
        self.fresh, self.budget = 0, 8

    def finish(self) -> None:
        """Write the text."""
        rng = self.rng
        self.write()
        params = [f"{a.name}: {a.annotation}" for a in self.arrays]
        flush = "(flush_denormals=True)" if self.rows and rng.random() < 0.15 else ""
        head = f"@kc.kernel{flush}\ndef kernel({', '.join(params)}, m: int, c: float):\n"
        vectors = sorted({a.element: a for a in self.arrays if a.length}.items())
        defined = [f"{n} = kc.vector({a.length}, kc.{a.dtype})" for n, a in vectors]
        self.text = "\n".join((*defined, DEFINITIONS, head + "\n".join(self.lines), ""))
        self.text = self.text.replace("{real}", self.real)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def write(self) -> None:
        """The body of the kernel."""
        # Kernels that do not ask for their index run one point.
        is_point = self.grid == (1,) and self.rng.random() < 0.7
        value = "kc.int32(0)" if is_point else "kc.tid()"
        self.line(1, f"{', '.join(self.indices)} = {value}")
        if self.rows and self.rng.random() < 0.5:
            self.row_loop(1)
        for _ in range(self.rng.randint(1, 4)):
            self.statement(1, in_loop=False)
        for array in self.outputs[: self.rng.randint(1, 2)]:
            self.line(1, self.assignment(array, "="))

    # Expressions

    def integer(self, depth: int = 0) -> str:
        """An int32."""
        rng = self.rng
        if depth > 2:
            return rng.choice(self.integers)
        if depth > 1 or rng.random() < 0.4:
            return rng.choice((*self.integers, str(rng.randint(0, 9)), self.neighbour(depth)))
        one, two = self.integer(depth + 1), self.integer(depth + 1)
        number = rng.choice(("2", "3", "7", "(m + 1)"))
        return rng.choice(
            (
                f"({one} + {two})", f"({one} - {two})", f"({one} * {two})", f"({one} // {number})",
                f"({one} % {number})", f"kc.min({one}, {two})", f"kc.max({one}, {two})",
                f"({one} & {two})", f"({one} >> 1)", f"kc.where({self.test()}, {one}, {two})",
            )
        )  # fmt: skip

    def neighbour(self, depth: int) -> str:
        """An int32 of the table."""
        return f"at[{self.below(TABLE, depth)}]"

    def below(self, extent: int, depth: int = 1) -> str:
        """An index below ``extent``."""
        names = [n for n, e in zip(self.indices, self.grid, strict=True) if e <= extent]
        if names and self.rng.random() < 0.5:
            return self.rng.choice(names)
        return self.rng.choice(
            (f"({self.integer(depth + 1)} % {extent})", str(self.rng.randrange(extent)))
        )

    def element(self, array: GridArray) -> str:
        """A scalar of ``array`` at or near the point, or anywhere in it."""
        rng, found = self.rng, list[str]()
        for at, axis in enumerate(array.axes):
            name, extent = self.indices[axis], self.grid[axis]
            given, by = rng.choice((str(extent), f"{array.name}.shape[{at}]")), rng.randint(1, 3)
            near = (
                name, name, name, f"({name} + {by}) % {given}", f"kc.max({name} - {by}, 0)",
                f"({name} - {by} + {given}) % {given}", f"kc.min({name} + {by}, {given} - 1)",
                f"kc.where({name} + 1 < {given}, {name} + 1, 0)", f"{name} // 2",
                f"{extent - 1} - {name}", self.below(extent),
            )  # fmt: skip
            found.append(rng.choice(near))
        text = f"{array.name}[{', '.join(found)}]"
        return self.part(array, text)

    def part(self, array: GridArray, text: str) -> str:
        """A component of the element ``text``, if it has some."""
        if not array.length:
            return text
        if self.rng.random() < 0.2:
            return f"kc.dot({text}, {text})" if array.dtype != "bool" else f"{text}[0]"
        return f"{text}[{self.rng.choice((str(self.rng.randrange(array.length)), 'i % 2'))}]"

    def real_number(self, depth: int = 0) -> str:
        """A number of type ``real``."""
        rng = self.rng
        if depth > 2 or rng.random() < 0.35:
            text = f"kc.{{real}}({self.element(rng.choice(self.inputs))})"
            private = [f"{p}[{self.below(PRIVATE)}]" for p in self.privates]
            return rng.choice((text, text, *self.reals, *private, f"kc.{{real}}({self.integer()})"))
        one, two = self.real_number(depth + 1), self.real_number(depth + 1)
        return rng.choice(
            (
                f"({one} {rng.choice('+-*/')} {two})", f"({one} {rng.choice('+-*')} {two})",
                f"kc.min({one}, {two})", f"kc.abs({one})", f"kc.where({self.test()}, {one}, {two})",
                f"({one} if {self.test()} else {two})", self.function(one, two),
                f"kc.sqrt(kc.abs({one}))", f"(-{one})", f"kc.floor({one})", f"kc.sin({one})",
                f"({one} % {two})", f"({one} // {two})",
            )
        )  # fmt: skip

    def function(self, one: str, two: str) -> str:
        """A call of a function with a loop."""
        return f"blend({one}, {two}, {self.integer()})"

    def test(self) -> str:
        """A condition."""
        rng = self.rng
        one, two = rng.choice(self.integers), rng.choice(self.integers)
        tests = (
            f"{one} % {rng.randint(2, 5)} == {rng.randint(0, 1)}", f"{one} > {two}", f"{one} > 0",
            f"{rng.choice(self.reals)} > 0.25", f"({one} < 4 and {two} != 2)",
            f"(not {one} == 3 or {two} >= 1)",
        )  # fmt: skip
        return rng.choice(tests)

    # Statements

    def statement(self, depth: int, *, in_loop: bool) -> None:
        """One statement."""
        self.budget -= 1
        simple = [self.declare, self.change, self.store, self.store, self.guarded, self.change]
        simple += [self.add] * 3 if self.sums else []
        nested: list[Callable[[int], None]] = [
            self.branch, self.counted, self.row_loop, self.while_loop, self.static_loop,
            self.private, self.philox, self.records,
        ]  # fmt: skip
        if depth < 4 and self.budget > 0 and self.rng.random() < 0.6:
            self.rng.choice(nested)(depth)
            return
        if in_loop and self.rng.random() < 0.15:
            self.line(depth, f"if {self.test()}:")
            self.line(depth + 1, self.rng.choice(("break", "continue", "return")))
            return
        self.rng.choice(simple)(depth)

    def block(self, depth: int, *counters: str, in_loop: bool = True) -> None:
        """Some statements, whose new names and ``counters`` are gone afterwards."""
        saved = list(self.reals), list(self.integers), list(self.privates)
        self.integers += counters
        for _ in range(self.rng.randint(1, 2)):
            self.statement(depth, in_loop=in_loop)
        self.reals, self.integers, self.privates = saved

    def declare(self, depth: int) -> None:
        if self.rng.random() < 0.2:
            first, second = self.name("v"), self.name("v")
            values = f"{self.real_number(1)}, {self.real_number(1)}"
            self.line(depth, f"{first}, {second} = both({values})")
            self.reals += [first, second]
            return
        name = self.name("v")
        self.line(depth, f"{name} = {self.real_number()}")
        self.reals.append(name)

    def change(self, depth: int) -> None:
        names = [n for n in self.reals if n.isidentifier()]
        if not names:
            self.declare(depth)
        else:
            operator = self.rng.choice(("=", "+=", "-=", "*="))
            self.line(depth, f"{self.rng.choice(names)} {operator} {self.real_number()}")

    def own(self, array: GridArray) -> str:
        """The element of ``array`` that belongs to the thread."""
        return f"{array.name}[{', '.join(self.indices)}]"

    def assignment(self, array: GridArray, operator: str) -> str:
        """A store to the thread's element of ``array``, or to a part of it."""
        target, dtype = self.own(array), array.dtype
        names = [n for n in self.reals if n.isidentifier()]
        if dtype != "bool" and names and self.rng.random() < 0.6:
            value = f"kc.{dtype}({' + '.join(names)})"
        elif dtype == "bool":
            value = f"{self.test()}"
        elif dtype in REALS:
            value = f"kc.{dtype}({self.real_number()})"
        else:
            # A literal of no other type must fit, a number of int32 wraps.
            value = f"kc.{dtype}(kc.int32({self.integer()}))"
        operator = operator if dtype != "bool" else "="
        if array.length and self.rng.random() < 0.6:
            place = self.rng.choice((str(self.rng.randrange(array.length)), "i % 2"))
            return f"{target}[{place}] {operator} {value}"
        if array.length:
            return f"{target} = {array.element}({', '.join([value] * array.length)})"
        return f"{target} {operator} {value}"

    def store(self, depth: int) -> None:
        array, operator = self.rng.choice(self.outputs), self.rng.choice(("=", "=", "+="))
        self.line(depth, self.assignment(array, operator))

    def guarded(self, depth: int) -> None:
        """A load near a border, under the branch that allows it."""
        array, target = self.rng.choice(self.inputs), self.name("v")
        axis, step = self.rng.choice(array.axes), self.rng.choice((1, -1, 2))
        name, extent = self.indices[axis], self.grid[axis]
        places = ", ".join(
            self.indices[a] + (f" + {step}" if a == axis else "") for a in array.axes
        )
        self.line(depth, f"{target} = kc.{{real}}(0.5)")
        self.line(depth, f"if {name} + {step} >= 0 and {name} + {step} < {extent}:")
        text = self.part(array, f"{array.name}[{places}]")
        self.line(depth + 1, f"{target} = kc.{{real}}({text})")
        self.reals.append(target)

    def add(self, depth: int) -> None:
        """An addition to an element that threads share, which is exact, or an extremum."""
        array, place = self.rng.choice(self.sums), self.below(SHARED)
        value = f"kc.{array.dtype}({self.integer()} % 8)"
        which = self.rng.choice(("add", "sub")) if array.name == "t0" else self.extremum
        text = f"kc.atomic_{which}({array.name}, {place}, {value})"
        if array.name == "t0" and self.rng.random() < 0.4:
            text = f"{array.name}[{place}] += {value}"
        self.line(depth, text)

    def branch(self, depth: int) -> None:
        self.line(depth, f"if {self.test()}:")
        self.block(depth + 1, in_loop=False)
        if self.rng.random() < 0.5:
            self.line(depth, "else:")
            self.block(depth + 1, in_loop=False)

    def loop(self, depth: int, ranges: tuple[str, ...]) -> None:
        index = self.name("k")
        self.line(depth, f"for {index} in range({self.rng.choice(ranges)}):")
        self.block(depth + 1, index, index)

    def counted(self, depth: int) -> None:
        self.loop(depth, ("m", "i % 5", "m, -1, -1", "0, 2 * m, 2", "1, m + 2", "-m, 2"))

    def static_loop(self, depth: int) -> None:
        """A loop that is unrolled: the index is a literal."""
        index = self.name("k")
        self.line(depth, f"for {index} in {self.rng.choice(self.unrolled)}:")
        self.block(depth + 1, f"kc.int32({index})", in_loop=False)

    def row_loop(self, depth: int) -> None:
        """A loop along the row of a thread, as sums and recurrences have."""
        if not self.rows:
            return self.counted(depth)
        index, name = self.name("k"), self.name("s")
        ranges = ("{n}", "{n}", "1, {n}", "{n} - 1, -1, -1", "0, {n}, 2")
        self.line(depth, f"{name} = kc.{{real}}(0.0)")
        extent = self.rng.choice(ranges).format(n="w.shape[1]")
        self.line(depth, f"for {index} in range({extent}):")
        here = self.indices[self.rows[0].axes[0]]
        row = self.rng.choice((here, here, here, f"{here} // 2", "0"))
        element = f"kc.{{real}}(w[{row}, {index}])"
        texts = (
            f"{name} += {element}", f"{name} = kc.max({name}, {element})",
            f"{name} = {name} * {self.real_number(2)} + {element}",
        )  # fmt: skip
        self.line(depth + 1, self.rng.choice(texts))
        if self.rng.random() < 0.3:
            self.block(depth + 1, index, index)
        self.reals.append(name)
        return None

    def while_loop(self, depth: int) -> None:
        counter = self.name("n")
        self.line(depth, f"{counter} = kc.int32(0)")
        self.line(depth, f"while {counter} < {self.integer()} % 6 and {self.test()}:")
        self.line(depth + 1, f"{counter} += 1")
        self.block(depth + 1, counter)

    def private(self, depth: int) -> None:
        """An array of the thread, which a loop fills at places that the compiler does not know."""
        name, index = self.name("p"), self.name("k")
        self.line(depth, f"{name} = Private()")
        self.line(depth, f"for {index} in range({PRIVATE}):")
        place = self.rng.choice((index, f"({index} * m + i) % {PRIVATE}", f"({index} + i) % 3"))
        self.line(depth + 1, f"{name}[{place}] = {self.real_number(1)}")
        self.privates.append(name)

    def philox(self, depth: int) -> None:
        state, name = self.name("g"), self.name("v")
        start = self.rng.choice(("philox_init(m, i)", "philox_init(7, i, m)", "rand_init(m, i)"))
        self.line(depth, f"{state} = kc.{start}")
        self.line(depth, f"{name} = kc.{{real}}(kc.randf({state}))")
        if self.rng.random() < 0.5:
            self.line(depth, f"{name} += kc.{{real}}(kc.randi({state}, 0, 9))")
        self.reals.append(name)

    def records(self, depth: int) -> None:
        """A struct that a branch changes."""
        name = self.name("r")
        self.line(depth, f"{name} = Pair({self.real_number(1)}, kc.vec3i({self.integer()}, 1, m))")
        self.line(depth, f"if {self.test()}:")
        self.line(depth + 1, f"{name}.second[{self.below(3)}] = {self.integer()}")
        self.line(depth + 1, f"{name}.first = {self.real_number(1)}")
        self.reals.append(f"{name}.first")
        self.integers.append(f"{name}.second.x")
