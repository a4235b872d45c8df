"""Random well-typed programs in the whole kernel language: types, functions, a kernel."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from kernelcore.frontend import specialize
from kernelcore.language.types import ArrayOf, Dense, Element, Scalar, int32
from tests.fuzz.expressions import Expressions
from tests.fuzz.palette import (
    COLUMNS,
    LONG,
    Draws,
    Palette,
    Place,
    Size,
    UserFunction,
    draw_palette,
)
from tests.fuzz.statements import POINTS, Statements


@dataclass(frozen=True)
class Parameter:
    """A parameter of the kernel: ``ndim`` dimensions of ``type``, or a value."""

    name: str
    type: Element
    ndim: int
    writable: bool = False

    @property
    def annotation(self) -> Element | ArrayOf:
        """What it is declared as."""
        return ArrayOf(self.type, self.ndim) if self.ndim else self.type

    def shape(self, points: int) -> tuple[int, ...]:
        """The extents of its array dimensions, in a launch of ``points`` threads."""
        return (points, COLUMNS)[: self.ndim]


@dataclass(frozen=True)
class Program:
    """A program as text, what its kernel takes, and over how many points it is launched."""

    text: str
    params: tuple[Parameter, ...]
    seed: int = field(repr=False)
    points: int = POINTS

    def __repr__(self) -> str:
        return f"Program with arguments from seed {self.seed}:\n{self.text}"


@st.composite
def programs(draw: Callable[[Any], Any], points: int = POINTS) -> Program:
    """Random programs for launches over ``points`` points."""
    return draw_program(Draws(draw), points)


def draw_program(draws: Draws, points: int = POINTS, size: Size = LONG) -> Program:
    """A program of about ``size`` for launches over ``points`` points."""
    seed = draws.below(1 << 16)
    palette = draw_palette(draws, size)
    functions: list[UserFunction] = []
    texts: list[str] = []
    for number in range(draws.below(size.functions)):
        if draws.chance(25):
            texts.append(_generic(draws, functions, number))
        elif draws.chance(40):
            texts.append(_updating(draws, palette, functions, number, size))
        else:
            texts.append(_function(draws, palette, functions, number, size))
    params, body = _kernel(draws, palette, functions, points, size)
    text = palette.definitions + "".join(texts) + body
    return Program(text, params, seed, points)


def _function(
    draws: Draws, palette: Palette, functions: list[UserFunction], number: int, size: Size
) -> str:
    """A function with typed parameters, and at times an overload."""
    name = f"g{number}"
    made: list[UserFunction] = []
    text = ""
    for _ in range(1 + draws.chance(25)):
        params: tuple[Element | ArrayOf, ...] = tuple(
            draws.pick(palette.elements) for _ in range(1 + draws.below(3))
        )
        if draws.chance(30):
            params = (*params, ArrayOf(draws.pick(palette.elements), 1))
        if any(f.params == params for f in made):
            continue
        results = tuple(draws.pick(palette.elements) for _ in range(1 + draws.chance(35)))
        names = [f"p{k}" for k in range(len(params))]
        writes = isinstance(params[-1], ArrayOf) and draws.chance(50)
        places = [_place(n, t, writes) for n, t in zip(names, params, strict=True)]
        write = Expressions(draws, palette, places, functions=list(functions), depth=size.depth)
        body = Statements(write, results, budget=4)
        for _ in range(draws.below(4)):
            body.statement(1, False)
        if writes:
            body.store(1, False)
        body.finish(1)
        typed = ", ".join(
            f"{n}: {_annotation(palette, t)}" for n, t in zip(names, params, strict=True)
        )
        text += f"@kc.func\ndef {name}({typed}):\n" + "\n".join(body.lines) + "\n"
        made.append(UserFunction(name, params, results, writes=writes))
    functions.extend(made)
    return text


def _updating(
    draws: Draws, palette: Palette, functions: list[UserFunction], number: int, size: Size
) -> str:
    """A function whose call assigns one or two of its parameters."""
    params = tuple(draws.pick(palette.elements) for _ in range(1 + draws.below(3)))
    count = 1 + (len(params) > 1 and draws.chance(40))
    result = draws.pick(palette.elements)
    places = [Place(f"p{k}", type_, writable=True) for k, type_ in enumerate(params)]
    write = Expressions(draws, palette, places, functions=list(functions), depth=size.depth)
    body = Statements(write, (result,), budget=4)
    for place in places[:count]:
        body.assign(1, place.text, place.type)
    for _ in range(draws.below(4)):
        body.statement(1, False)
    body.finish(1)
    words = [palette.spell(t) for t in params]
    words[:count] = [f"kc.ref[{word}]" for word in words[:count]]
    typed = ", ".join(f"p{k}: {word}" for k, word in enumerate(words))
    functions.append(UserFunction(f"g{number}", params, (result,), updates=tuple(range(count))))
    return f"@kc.func\ndef g{number}({typed}):\n" + "\n".join(body.lines) + "\n"


def _place(name: str, type_: Element | ArrayOf, writes: bool) -> Place:
    """A parameter of a function."""
    if not isinstance(type_, ArrayOf):
        return Place(name, type_, writable=True)
    assert isinstance(type_.element, Element)
    return Place(name, type_.element, (COLUMNS,), writes)


def _is_plain(type_: Element) -> bool:
    """Whether sums and minima are defined."""
    if isinstance(type_, Dense):
        return type_.kind in ("vector", "matrix")
    return isinstance(type_, Scalar) and type_.kind != "bool"


def _is_vector(type_: Element) -> bool:
    return isinstance(type_, Dense) and type_.kind == "vector"


def _is_any(type_: Element) -> bool:
    return True


_GENERIC: tuple[tuple[Callable[[Element], bool], str, int], ...] = (
    (_is_any, "(a: Any, b: Any):\n    if a == b:\n        return a\n    return b", 2),
    (_is_plain, "(a: Any, b: Any):\n    return kc.min(a + b, a - b)", 2),
    (_is_plain, "(a: Any, b: Any):\n    c = a\n    c += b\n    return c if a == b else -c", 2),
    (
        _is_vector,
        "(a: V, b: V):\n    r = type(a)()\n    for k in range(len(a)):\n"
        "        r[k] = a[k] * b[0] - b[k]\n    return r",
        2,
    ),
    (
        _is_vector,
        "(a: V):\n    s = a.dtype(2)\n    for k in range(len(a)):\n        s += a[k] * a[0]\n"
        "    return s * a",
        1,
    ),
)


def _generic(draws: Draws, functions: list[UserFunction], number: int) -> str:
    """A function whose parameters may have several types."""
    fits, text, count = draws.pick(_GENERIC)
    functions.append(UserFunction(f"g{number}", (int32,) * count, (int32,), fits))
    return f"@kc.func\ndef g{number}{text}\n"


def _kernel(
    draws: Draws, palette: Palette, functions: list[UserFunction], points: int, size: Size
) -> tuple[tuple[Parameter, ...], str]:
    """The kernel: values, arrays that are read, arrays that thread ``i`` writes at ``i``."""
    elements = palette.elements
    params = [
        Parameter(f"s{k}", draws.pick(elements), 0) for k in range(1 + draws.below(size.params))
    ]
    params += [
        Parameter(f"a{k}", draws.pick(elements), 1 + draws.below(2))
        for k in range(1 + draws.below(size.params))
    ]
    params += [
        Parameter(f"o{k}", draws.pick(elements), 1 + draws.below(2), writable=True)
        for k in range(1 + draws.below(size.params))
    ]
    rows_of = [p for f in functions for p in f.params if isinstance(p, ArrayOf)]
    for k, row in enumerate(rows_of[:2]):
        assert isinstance(row.element, Element)
        params.append(Parameter(f"o{k + 3}", row.element, 2, writable=True))
    places: list[Place] = [Place("i", int32)]
    rows: list[str] = []
    for p in params:
        if p.writable and p.ndim == 2:
            rows.append(f"    r{p.name} = {p.name}[i]\n")
            places.append(Place(f"r{p.name}", p.type, (COLUMNS,), writable=True))
        elif p.writable:
            places.append(Place(f"{p.name}[i]", p.type, writable=True))
        else:
            places.append(Place(p.name, p.type, p.shape(points)))
    write = Expressions(draws, palette, places, [("i", points)], functions, size.depth)
    body = Statements(write)
    for _ in range(size.least_statements + draws.below(size.statements)):
        body.statement(1, False)
    for p in params:
        if p.writable:
            place = next(q for q in places if q.text in (f"r{p.name}", f"{p.name}[i]"))
            body.assign(1, write.element(place, 1), place.type)
    typed = ", ".join(f"{p.name}: {_annotation(palette, p.annotation)}" for p in params)
    head = f"@kc.kernel\ndef kernel({typed}):\n    i = kc.tid()\n" + "".join(rows)
    return tuple(params), head + "\n".join(body.lines) + "\n"


def _annotation(palette: Palette, type_: Element | ArrayOf) -> str:
    if not isinstance(type_, ArrayOf):
        return palette.spell(type_)
    assert isinstance(type_.element, Element)
    element = palette.spell(type_.element)
    name = "array" if type_.ndim == 1 else f"array{type_.ndim}d"
    return f"kc.{name}(dtype={element})"


def define(text: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """The names that ``text`` defines, with its source on record until the next program."""
    file = "<program>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), namespace)
    return namespace


def unchecked_text() -> AbstractContextManager[object]:
    """Let the frontend compile no text to compare it with the code of functions.

    The comparison takes a third of the time of the frontend.
    """
    return mock.patch.object(specialize, "check_text", return_value=None)
