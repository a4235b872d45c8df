"""The types that one random program uses, and the parts that values of them have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

from kernelcore.language.composite_types import CLASSES
from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import (
    FLOATS,
    INTEGERS,
    ArrayOf,
    Dense,
    Element,
    Scalar,
    StructType,
    boolean,
    int32,
)

T = TypeVar("T")

# A piece of the path to a part: text, the extent that an index is below, or an extent and the
# length of a slice of it.
Piece = str | int | tuple[int, int]
Route = tuple[Piece, ...]

_NAMES = {found.kernel_type: name for name, found in reversed(CLASSES.items())}
_SHAPES = ((2,), (3,), (4,), (5,), (2, 2), (3, 3), (2, 3))


# The extent of rows of arrays.
COLUMNS = 4
_CHUNK = st.binary(min_size=32, max_size=32)


class Draws:
    """Random choices that Hypothesis makes, so that it can shrink them towards the first.

    They come from chunks of bytes: where Hypothesis knows single choices, it repeats many programs.
    """

    def __init__(self, draw: Callable[[st.SearchStrategy[bytes]], bytes]) -> None:
        self._bytes = (byte for _ in itertools.count() for byte in draw(_CHUNK))

    def below(self, count: int) -> int:
        """An integer from 0 to ``count - 1``, which is below 65536."""
        size = 1 if count <= 1 << 8 else 2
        number = int.from_bytes(bytes(itertools.islice(self._bytes, size)))
        return number * count >> 8 * size

    def pick(self, options: Sequence[T]) -> T:
        """One of ``options``."""
        return options[self.below(len(options)) if len(options) > 1 else 0]

    def chance(self, percent: int) -> bool:
        """True in ``percent`` of a hundred cases."""
        return self.below(100) >= 100 - percent


@dataclass(frozen=True)
class Size:
    """How large programs are; a number of things is drawn up to what is given, exclusive.

    Attributes:
        scalars: Scalar types besides those that every program has.
        dense: Composite types.
        structs: Struct types.
        functions: Functions.
        params: Values, arrays that are read and arrays that are written, of each one more.
        least_statements: Statements of the kernel, of which there are always so many.
        statements: Further ones.
        depth: Levels of expressions, inclusive.
    """

    scalars: int = 3
    dense: int = 4
    structs: int = 3
    functions: int = 4
    params: int = 3
    least_statements: int = 3
    statements: int = 4
    depth: int = 3


LONG = Size()
# Programs that are compiled in milliseconds.
SHORT = Size(
    scalars=2, dense=1, structs=1, functions=2, params=2, least_statements=1, statements=2, depth=2
)


@dataclass
class Palette:
    """The types of one program; ``definitions`` is the text that names those without a name."""

    scalars: list[Scalar]
    dense: list[Dense] = field(default_factory=list[Dense])
    structs: list[StructType] = field(default_factory=list[StructType])
    named: dict[Dense, None] = field(default_factory=dict[Dense, None])

    def spell(self, type_: Element) -> str:
        """How the program names ``type_``, which need not be one of the palette."""
        if isinstance(type_, Dense):
            self.named[type_] = None
        return spell(type_)

    @property
    def elements(self) -> list[Element]:
        """All of them, the simplest first."""
        return [*self.scalars, *self.dense, *self.structs]

    def with_scalar(self, kind: Callable[[Scalar], bool]) -> list[Scalar]:
        """The scalars of a kind."""
        return [s for s in self.scalars if kind(s)]

    def of_size(self, type_: Element) -> list[Scalar | Dense]:
        """The others of the size of ``type_`` that have no bool, if it has none."""
        size = _bits(type_)
        return [t for t in (*self.scalars, *self.dense) if t != type_ and _bits(t) == size > 0]

    @property
    def definitions(self) -> str:
        """The text that defines the types."""
        unnamed = [d for d in {**dict.fromkeys(self.dense), **self.named} if d not in _NAMES]
        lines = [f"{spell(d)} = {_factory(d)}\n" for d in unnamed]
        for struct in self.structs:
            lines.append(f"@kc.struct\nclass {struct.name}:\n")
            lines += [
                f"    {name}: {spell(member)}\n"
                for name, member in struct.fields
                if isinstance(member, Element)
            ]
        return "".join(lines)


def _bits(type_: Element) -> int:
    """The bits of a value; 0 with a bool among them."""
    scalars = scalars_of(type_)
    return 0 if boolean in scalars else sum(s.bits for s in scalars)


@dataclass(frozen=True)
class Place:
    """A variable, a parameter or an array element: what a program can read.

    ``indices`` are the extents of the array dimensions that are still to be indexed.
    """

    text: str
    type: Element
    indices: tuple[int, ...] = ()
    writable: bool = False


@dataclass(frozen=True)
class GridArray:
    """An array parameter: a scalar or a vector per element.

    ``axes`` are those of the grid, or less than zero: minus the extent of an axis of components.
    """

    name: str
    dtype: str
    axes: tuple[int, ...]
    length: int = 0

    @property
    def annotation(self) -> str:
        """What it is declared as."""
        ndim = len(self.axes) + (self.name == "w")
        return f"kc.array(dtype={self.element}, ndim={ndim})"

    @property
    def element(self) -> str:
        """The type of its elements."""
        return f"Vec{self.length}_{self.dtype}" if self.length else f"kc.{self.dtype}"


@dataclass(frozen=True)
class UserFunction:
    """A function of the program; a generic one takes and gives one type that ``fits`` admits.

    A parameter that is an array is a row; a function that ``writes`` may store to it. A call
    assigns the parameters at ``updates``.
    """

    name: str
    params: tuple[Element | ArrayOf, ...]
    results: tuple[Element, ...]
    fits: Callable[[Element], bool] | None = None
    writes: bool = False
    updates: tuple[int, ...] = ()

    @property
    def is_pure(self) -> bool:
        """Whether a call changes nothing."""
        return not self.writes and not self.updates


def draw_palette(draws: Draws, size: Size) -> Palette:
    """A few scalars, composites of them and structs of those."""
    scalars = [draws.pick((*reversed(FLOATS),)), draws.pick(INTEGERS)]
    scalars += [draws.pick((*FLOATS, *INTEGERS)) for _ in range(draws.below(size.scalars))]
    palette = Palette(list(dict.fromkeys([*scalars, int32, boolean])))
    numbers = [s for s in palette.scalars if s != boolean]
    for _ in range(1 + draws.below(size.dense)):
        palette.dense.append(_draw_dense(draws, draws.pick(numbers)))
    palette.dense = list(dict.fromkeys(palette.dense))
    for number in range(draws.below(size.structs)):
        members = [draws.pick(palette.elements) for _ in range(1 + draws.below(3))]
        fields = tuple((f"f{k}", member) for k, member in enumerate(members))
        palette.structs.append(StructType(f"S{number}", fields))
    return palette


def _draw_dense(draws: Draws, scalar: Scalar) -> Dense:
    if scalar.is_float and draws.chance(25):
        return draws.pick((Dense("quaternion", scalar, (4,)), Dense("transform", scalar, (7,))))
    shape = draws.pick(_SHAPES)
    return Dense("vector" if len(shape) == 1 else "matrix", scalar, shape)


def spell(type_: Element) -> str:
    """How a program names ``type_``."""
    match type_:
        case Scalar():
            return f"kc.{type_.name}"
        case StructType():
            return type_.name
        case Dense():
            if type_ in _NAMES:
                return f"kc.{_NAMES[type_]}"
            sizes = "x".join(str(n) for n in type_.extents)
            return f"{type_.kind}{sizes}_{type_.dtype}"


def _factory(type_: Dense) -> str:
    dtype = spell(type_.scalar)
    match type_.kind:
        case "vector":
            return f"kc.vector({type_.size}, {dtype})"
        case "matrix":
            return f"kc.matrix({type_.extents}, {dtype})"
        case "quaternion":
            return f"kc.quaternion({dtype})"
        case _:
            return f"kc.transformation({dtype})"


@cache
def routes(type_: Element, wanted: Element) -> tuple[Route, ...]:
    """The ways from a value of ``type_`` to its parts of type ``wanted``."""
    if type_ == wanted:
        return ((),)
    return tuple((*step, *rest) for step, part in _steps(type_) for rest in routes(part, wanted))


@cache
def _steps(type_: Element) -> tuple[tuple[Route, Element], ...]:
    """From a value to its parts."""
    match type_:
        case StructType(fields=fields):
            return tuple(((f".{n}",), m) for n, m in fields if isinstance(m, Element))
        case Dense(kind="transform"):
            scalar = type_.scalar
            parts = (
                ((".p",), Dense("vector", scalar, (3,))),
                (
                    (".q",),
                    Dense("quaternion", scalar, (4,)),
                ),
            )
            return (*parts, (("[", 7, "]"), scalar))
        case Dense(kind="matrix", extents=(rows, columns)):
            row = Dense("vector", type_.scalar, (columns,))
            return ((("[", rows, ", ", columns, "]"), type_.scalar), (("[", rows, "]"), row))
        case Dense(extents=(size,)):
            return _vector_steps(type_, size)
        case _:
            return ()


def _vector_steps(type_: Dense, size: int) -> tuple[tuple[Route, Element], ...]:
    letters = "xyzw"[:size] if size <= 4 else ""
    found: list[tuple[Route, Element]] = [((f".{c}",), type_.scalar) for c in letters[:2]]
    found.append((("[", size, "]"), type_.scalar))
    if type_.kind == "vector":
        pair = Dense("vector", type_.scalar, (2,))
        if size > 2:
            found += [((f".{letters[k : k + 2]}",), pair) for k in range(len(letters) - 1)]
        found += [
            (("[", (size, n), "]"), Dense("vector", type_.scalar, (n,))) for n in range(2, size)
        ]
    return tuple(found)
