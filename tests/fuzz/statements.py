"""Random statements: assignments of every kind, nested control flow, early exits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernelcore.language.types import Dense, Element, Scalar, StructType, int32
from tests.fuzz.expressions import Expressions
from tests.fuzz.palette import Place, routes

POINTS = 3
_NUMBER_OPS = ("+=", "-=", "*=")
_INT_OPS = ("&=", "|=", "^=", "//=", "%=", "<<=", ">>=")
_FLOAT_OPS = ("/=", "//=", "%=")


@dataclass
class Statements:
    """Writes the body of one function; ``results`` is None for a kernel."""

    write: Expressions
    results: tuple[Element, ...] | None = None
    lines: list[str] = field(default_factory=list[str])
    budget: int = 12
    fresh: int = 0

    def line(self, depth: int, text: str) -> None:
        """Append one line."""
        self.lines.append("    " * depth + text)

    def name(self, prefix: str) -> str:
        """A new name."""
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def block(self, depth: int, in_loop: bool, most: int = 3) -> None:
        """Some statements, whose new names are gone afterwards."""
        places, counters = list(self.write.places), list(self.write.counters)
        for _ in range(1 + self.write.draws.below(most)):
            self.statement(depth, in_loop)
        self.write.places, self.write.counters = places, counters

    def statement(self, depth: int, in_loop: bool) -> None:
        """One statement."""
        self.budget -= 1
        options: list[Callable[[int, bool], None]] = [self.store, self.declare, self.change]
        options += [self.augment, self.augment, self.store, self.change]
        options += [self.unpack, self.view, self.swap]
        options += [self.update] * 4 * any(f.updates for f in self.write.functions)
        if depth < 4 and self.budget > 0:
            options += [
                self.branch,
                self.branch,
                self.for_loop,
                self.for_loop,
                self.while_loop,
                self.unrolled,
            ]
        if in_loop:
            options += [self.leave, self.leave, self.leave]
        if depth > 1 and self.write.draws.chance(6):
            options = [self.give_up]
        self.write.draws.pick(options)(depth, in_loop)

    def declare(self, depth: int, in_loop: bool) -> None:
        """A new variable."""
        type_ = self.write.draws.pick(self.write.palette.elements)
        name = self.name("v")
        text = self.write.expression(type_)
        if self.write.draws.chance(20):
            literal = isinstance(type_, Scalar) and self.write.draws.chance(60)
            text = self.write.literal(type_) if literal and isinstance(type_, Scalar) else text
            self.line(depth, f"{name}: {self.write.palette.spell(type_)} = {text}")
        else:
            self.line(depth, f"{name} = {text}")
        self.write.places.append(Place(name, type_, writable=True))

    def targets(self) -> list[Place]:
        """What can be assigned."""
        return [p for p in self.write.places if p.writable]

    def target(self, wanted: Callable[[Element], bool] = lambda _: True) -> tuple[str, Element]:
        """Something to assign, at times a part of a variable or of an element."""
        draws, targets = self.write.draws, self.targets()
        scalars: list[Element] = [*self.write.palette.scalars, *self.write.palette.dense]
        for _ in range(4):
            place = draws.pick(targets)
            type_ = place.type if draws.chance(40) else draws.pick(scalars)
            if wanted(type_) and routes(place.type, type_):
                return self.write.part(place, type_, 1), type_
        place = next(p for p in targets if wanted(p.type))
        return self.write.element(place, 1), place.type

    def store(self, depth: int, in_loop: bool) -> None:
        """An assignment to an array element or a part of it."""
        places = [p for p in self.targets() if p.indices or "[" in p.text]
        if not places:
            return self.change(depth, in_loop)
        place = self.write.draws.pick(places)
        self.assign(depth, self.write.element(place, 1), place.type)

    def change(self, depth: int, in_loop: bool) -> None:
        """An assignment to what is there, or to a part of it."""
        text, type_ = self.target()
        self.assign(depth, text, type_)

    def assign(self, depth: int, text: str, type_: Element) -> None:
        self.line(depth, f"{text} = {self.write.expression(type_)}")

    def augment(self, depth: int, in_loop: bool) -> None:
        """An augmented assignment."""

        def wanted(type_: Element) -> bool:
            match type_:
                case Scalar(kind=kind):
                    return kind != "bool"
                case Dense(kind=kind):
                    return kind != "transform"
                case StructType():
                    return False

        if not any(wanted(p.type) for p in self.targets()):
            return self.declare(depth, in_loop)
        text, type_ = self.target(wanted)
        draws = self.write.draws
        if isinstance(type_, Dense):
            op = draws.pick(
                ("+=", "-=", "*=") if not type_.scalar.is_float else ("+=", "-=", "*=", "/=")
            )
            operand: Element = type_ if op in ("+=", "-=") else type_.scalar
            self.line(depth, f"{text} {op} {self.write.expression(operand)}")
            return None
        assert isinstance(type_, Scalar)
        op = draws.pick((*_NUMBER_OPS, *_NUMBER_OPS, *(_FLOAT_OPS if type_.is_float else _INT_OPS)))
        self.line(depth, f"{text} {op} {self.write.operand(type_, 2)}")
        return None

    def swap(self, depth: int, in_loop: bool) -> None:
        """Two assignments at once."""
        places = [p for p in self.targets() if p.text.isidentifier() and not p.indices]
        if len(places) < 2:
            return self.declare(depth, in_loop)
        first = self.write.draws.pick(places)
        second = self.write.draws.pick([p for p in places if p is not first])
        values = [self.write.expression(p.type, 2) for p in (first, second)]
        self.line(depth, f"{first.text}, {second.text} = {values[0]}, {values[1]}")
        return None

    def unpack(self, depth: int, in_loop: bool) -> None:
        """The results of a call with several."""
        if self.write.draws.chance(30):
            return self.pack(depth)
        found = [
            f
            for f in self.write.functions
            if self.write.has_rows(f) and (f.writes or len(f.results) > 1)
        ]
        if not found:
            return self.declare(depth, in_loop)
        function = self.write.draws.pick(found)
        text = self.write.calling(function, int32, 2)
        names = [self.name("v") for _ in function.results]
        self.line(depth, f"{', '.join(names)} = {text}")
        for name, type_ in zip(names, function.results, strict=True):
            self.write.places.append(Place(name, type_, writable=True))
        return None

    def update(self, depth: int, in_loop: bool) -> None:
        """A call of a function that assigns arguments: parts of different places."""
        found = [f for f in self.write.functions if f.updates]
        if not found:
            return self.declare(depth, in_loop)
        function = self.write.draws.pick(found)
        left, updated = self.targets(), list[str]()
        for k in function.updates:
            type_ = function.params[k]
            assert isinstance(type_, Element)
            fitting = [p for p in left if routes(p.type, type_)]
            if not fitting:
                return self.declare(depth, in_loop)
            place = self.write.draws.pick(fitting)
            left = [p for p in left if p.text.split("[")[0] != place.text.split("[")[0]]
            # Without variables in indices, which the call might assign.
            counters, self.write.counters = self.write.counters, []
            text = self.write.part(place, type_, 0)
            self.write.counters = counters
            updated.append(f"kc.address_of({text})" if self.write.draws.chance(20) else text)
        name = self.name("v")
        self.line(depth, f"{name} = {self.write.calling(function, int32, 2, updated)}")
        self.write.places.append(Place(name, function.results[0], writable=True))
        return None

    def pack(self, depth: int) -> None:
        """A variable that is a tuple."""
        types = [self.write.draws.pick(self.write.palette.elements) for _ in range(2)]
        name = self.name("t")
        parts = ", ".join(self.write.expression(t, 2) for t in types)
        self.line(depth, f"{name} = ({parts})")
        for k, type_ in enumerate(types):
            self.write.places.append(Place(f"{name}[{k}]", type_))

    def view(self, depth: int, in_loop: bool) -> None:
        """A part of an array under a name of its own."""
        arrays = [p for p in self.write.places if p.indices]
        if not arrays:
            return self.declare(depth, in_loop)
        draws = self.write.draws
        place = draws.pick(arrays)
        parts: list[str] = []
        left: list[int] = []
        for extent in place.indices:
            choice = draws.below(4)
            if choice == 0 and (left or len(parts) + 1 < len(place.indices)):
                parts.append(self.write.index(extent, 1))
                continue
            text, count = self.slice(extent)
            parts.append(text)
            left.append(count)
        while parts and parts[-1] == ":" and len(parts) > 1:
            parts.pop()
        name = self.name("w")
        self.line(depth, f"{name} = {place.text}[{', '.join(parts)}]")
        self.write.places.append(Place(name, place.type, tuple(left), place.writable))
        return None

    def slice(self, extent: int) -> tuple[str, int]:
        """A slice that is not empty, and its length."""
        draws = self.write.draws
        if draws.chance(40):
            return ":", extent
        start = draws.below(extent)
        stop = start + 1 + draws.below(extent - start)
        step = draws.pick(("", "", "", ":2", ":-1"))
        if step == ":-1":
            return "::-1", extent
        low = draws.pick((str(start), f"{start - extent}", f"kc.int32({start})"))
        high = "" if stop == extent and draws.chance(50) else str(stop)
        return f"{low}:{high}{step}", len(range(start, stop, 2 if step else 1))

    def branch(self, depth: int, in_loop: bool) -> None:
        """An ``if`` with or without alternatives."""
        self.line(depth, f"if {self.write.test(2)}:")
        self.block(depth + 1, in_loop)
        if self.write.draws.chance(20):
            self.line(depth, f"elif {self.write.test(2)}:")
            self.block(depth + 1, in_loop)
        if self.write.draws.chance(50):
            self.line(depth, "else:")
            self.block(depth + 1, in_loop)

    def for_loop(self, depth: int, in_loop: bool) -> None:
        """A loop over a range with bounds that are known at run time."""
        index = self.name("k")
        stop = self.write.bounded(4)
        bounds = self.write.draws.pick(
            (stop, f"1, {stop} + 1", f"{stop}, -1, -1", f"0, 2 * {stop}, 2", f"-{stop}, 2")
        )
        self.line(depth, f"for {index} in range({bounds}):")
        self.loop_body(depth, Place(index, int32), [(index, 4)] if bounds == stop else [])

    def unrolled(self, depth: int, in_loop: bool) -> None:
        """A loop over a range with literal bounds."""
        index, count = self.name("k"), 2 + self.write.draws.below(3)
        self.line(depth, f"for {index} in range({count}):")
        # The index is a literal where the loop is unrolled.
        self.loop_body(depth, Place(f"kc.int32({index})", int32), [(index, count)])

    def while_loop(self, depth: int, in_loop: bool) -> None:
        """A loop with a condition, that ends after some iterations at the latest."""
        counter = self.name("j")
        limit = 1 + self.write.draws.below(3)
        self.line(depth, f"{counter} = kc.int32(0)")
        self.line(depth, f"while {counter} < {limit} and {self.write.test(1)}:")
        self.line(depth + 1, f"{counter} += 1")
        self.loop_body(depth, Place(counter, int32), [(counter, limit + 1)])

    def loop_body(self, depth: int, index: Place, counters: Sequence[tuple[str, int]]) -> None:
        """What is in a loop; its index is there, and bounded."""
        places, known = list(self.write.places), list(self.write.counters)
        self.write.places.append(index)
        self.write.counters.extend(counters)
        self.block(depth + 1, True)
        self.write.places, self.write.counters = places, known

    def leave(self, depth: int, in_loop: bool) -> None:
        """An exit out of a loop, or to its next iteration."""
        self.line(depth, f"if {self.write.test(2)}:")
        if self.write.draws.chance(15):
            self.give_up(depth + 1, in_loop)
        else:
            self.line(depth + 1, self.write.draws.pick(("break", "continue")))

    def give_up(self, depth: int, in_loop: bool) -> None:
        """An early return."""
        if self.results is None:
            self.line(depth, "return")
        else:
            self.finish(depth)

    def finish(self, depth: int) -> None:
        """The return of a function with results."""
        assert self.results is not None
        self.line(depth, f"return {', '.join(self.write.expression(r, 2) for r in self.results)}")
