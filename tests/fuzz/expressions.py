"""Random expressions of a given type, as source text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import ArrayOf, Dense, Element, Scalar, StructType, boolean, int32
from tests.fuzz.palette import COLUMNS, Draws, Palette, Piece, Place, Size, UserFunction, routes

_INT_LITERALS = ("1", "2", "3", "7", "0", "100")
_FLOAT_LITERALS = ("0.5", "1.0", "2", "0.1", "1.5", "3.0", "0.0", "100.0", "0.001")
_INT_OPS = ("+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>")
_FLOAT_OPS = ("+", "-", "*", "/", "*", "+", "//", "%")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_FLOAT_UNARY = ("sqrt", "floor", "ceil", "round", "trunc", "frac", "rsqrt", "abs", "sign")
_INT_UNARY = ("abs", "sign", "bit_count", "clz", "ctz", "invert")
_CAST_NAMES = {"float32": "float", "int32": "int", "bool": "bool"}


@dataclass
class Expressions:
    """Writes expressions over what is there; ``counters`` are names and what they are below."""

    draws: Draws
    palette: Palette
    places: list[Place] = field(default_factory=list[Place])
    counters: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    functions: list[UserFunction] = field(default_factory=list[UserFunction])
    depth: int = Size.depth

    def expression(self, type_: Element, depth: int | None = None) -> str:
        """An expression of ``type_``; never a bare literal."""
        depth = self.depth if depth is None else depth
        options: list[Callable[[Element, int], str]] = [self.leaf, self.leaf]
        if depth > 0:
            match type_:
                case StructType():
                    options += [self.ternary, self.construct_struct]
                case Dense():
                    options += [self.dense, self.dense, self.dense, self.ternary, self.bits]
                case Scalar(kind="bool"):
                    options = [self.leaf, self.condition, self.condition, self.condition]
                case Scalar():
                    options += [self.number, self.number, self.number, self.call, self.cast]
                    options += [self.ternary, self.reduction, self.bits]
            options.append(self.user_call)
        return self.draws.pick(options)(type_, depth - 1)

    # Leaves

    def leaf(self, type_: Element, depth: int) -> str:
        """A part of something that is there, else a constant."""
        found = [p for p in self.places if routes(p.type, type_)]
        if not found:
            return self.constant(type_, depth)
        return self.part(self.draws.pick(found), type_, depth)

    def part(self, place: Place, type_: Element, depth: int) -> str:
        """A part of type ``type_`` of ``place``."""
        route = self.draws.pick(routes(place.type, type_))
        return self.element(place, depth) + self.follow(route, depth)

    def element(self, place: Place, depth: int) -> str:
        """``place`` with its indices."""
        if not place.indices:
            return place.text
        inside = ", ".join(self.index(n, depth) for n in place.indices)
        return f"{place.text}[{inside}]"

    def follow(self, route: Sequence[Piece], depth: int) -> str:
        """The text of a path to a part."""
        out = ""
        for piece in route:
            match piece:
                case str():
                    out += piece
                case int():
                    out += self.index(piece, depth)
                case (extent, count):
                    start = self.draws.below(extent - count + 1)
                    out += f"{start or ''}:{start + count}"
        return out

    def index(self, extent: int, depth: int) -> str:
        """An index below ``extent``."""
        names = [name for name, bound in self.counters if bound <= extent]
        choice = self.draws.below(6)
        if choice < 3 or (choice == 3 and not names):
            return str(self.draws.below(extent))
        if choice == 3 or depth <= 0:
            return self.draws.pick(names) if names else str(self.draws.below(extent))
        types = self.palette.with_scalar(lambda s: s.is_integer)
        return f"{self.expression(self.draws.pick(types), depth - 1)} % {extent}"

    def literal(self, type_: Scalar) -> str:
        """A literal that adapts to ``type_``."""
        if type_.kind == "bool":
            return self.draws.pick(("True", "False"))
        text = self.draws.pick(_FLOAT_LITERALS if type_.is_float else _INT_LITERALS)
        return f"(-{text})" if type_.kind != "uint" and self.draws.chance(20) else text

    def constant(self, type_: Element, depth: int) -> str:
        """A typed value that needs nothing."""
        match type_:
            case Scalar():
                return f"{self.palette.spell(type_)}({self.literal(type_)})"
            case StructType():
                return self.construct_struct(type_, depth)
            case Dense():
                return self.construct(type_, depth)

    # Scalars

    def operand(self, type_: Scalar, depth: int) -> str:
        """An expression, or a literal that takes its type from the other operand."""
        return self.literal(type_) if self.draws.chance(25) else self.expression(type_, depth)

    def number(self, type_: Element, depth: int) -> str:
        """An operator on numbers."""
        assert isinstance(type_, Scalar)
        if self.draws.chance(15):
            sign = "-" if type_.is_float or self.draws.chance(50) else "~"
            return f"({sign}{self.expression(type_, depth)})"
        op = self.draws.pick(_FLOAT_OPS if type_.is_float else _INT_OPS)
        left, right = self.expression(type_, depth), self.operand(type_, depth)
        if self.draws.chance(20) and not right[0].isdigit() and not right.startswith("(-"):
            left = self.literal(type_)
        return f"({left} {op} {right})"

    def call(self, type_: Element, depth: int) -> str:
        """A built-in that is exact."""
        assert isinstance(type_, Scalar)
        choice = self.draws.below(6)
        first = self.expression(type_, depth)
        if choice < 2:
            return f"kc.{self.draws.pick(_FLOAT_UNARY if type_.is_float else _INT_UNARY)}({first})"
        second = self.operand(type_, depth)
        if choice < 4:
            names = ("min", "max", "fmod") if type_.is_float else ("min", "max", "rotl", "rotr")
            return f"kc.{self.draws.pick(names)}({first}, {second})"
        third = self.operand(type_, depth)
        if choice == 4:
            name = self.draws.pick(("clamp", "fma") if type_.is_float else ("clamp",))
            return f"kc.{name}({first}, {second}, {third})"
        return f"kc.where({self.test(depth)}, {first}, {second})"

    def cast(self, type_: Element, depth: int) -> str:
        """A conversion from any scalar."""
        assert isinstance(type_, Scalar)
        source = self.expression(self.draws.pick(self.palette.scalars), depth)
        is_python = type_.name in _CAST_NAMES and self.draws.chance(50)
        return f"{_CAST_NAMES[type_.name] if is_python else self.palette.spell(type_)}({source})"

    def bits(self, type_: Element, depth: int) -> str:
        """The bits of another type of the same size; NaN is kept out, whose bits are open."""
        found = self.palette.of_size(type_)
        if not found:
            return self.leaf(type_, depth)
        source = self.draws.pick(found)
        one = self.expression(source, depth)
        text = f"kc.bitcast({one}, {self.palette.spell(type_)})"
        if not any(s.is_float for s in scalars_of(source)):
            return text
        return f"({text} if {one} == {one} else {self.constant(type_, depth)})"

    def ternary(self, type_: Element, depth: int) -> str:
        """A choice of two."""
        left, right = self.expression(type_, depth), self.expression(type_, depth)
        return f"({left} if {self.test(depth)} else {right})"

    def reduction(self, type_: Element, depth: int) -> str:
        """A scalar that is made of a composite."""
        assert isinstance(type_, Scalar)
        dense = [d for d in self.palette.dense if d.dtype == type_]
        if not dense:
            return self.leaf(type_, depth)
        source = self.draws.pick(dense)
        one = self.expression(source, depth)
        if source.kind == "matrix":
            if source.extents[0] <= source.extents[1] and self.draws.chance(50):
                return f"kc.trace({one})"
            return f"kc.ddot({one}, {self.expression(source, depth)})"
        if source.kind == "transform":
            return f"{one}[{self.index(7, depth)}]"
        if self.draws.chance(50):
            return f"kc.dot({one}, {self.expression(source, depth)})"
        names = ["length_sq"] + (["length"] if type_.is_float else [])
        names += ["min", "max"] if source.kind == "vector" else []
        return f"kc.{self.draws.pick(names)}({one})"

    def user_call(self, type_: Element, depth: int) -> str:
        """A call of a function of the program that gives ``type_``."""
        found = [f for f in self.functions if self.gives(f, type_)]
        if not found:
            return self.leaf(type_, depth)
        function = self.draws.pick(found)
        text = self.calling(function, type_, depth)
        if len(function.results) > 1:
            at = [k for k, result in enumerate(function.results) if result == type_]
            return f"{text}[{self.draws.pick(at)}]"
        return text

    def gives(self, function: UserFunction, type_: Element) -> bool:
        """Whether a result of ``function`` can be of ``type_``."""
        if function.fits:
            return function.fits(type_)
        return type_ in function.results and function.is_pure and self.has_rows(function)

    def has_rows(self, function: UserFunction) -> bool:
        """Whether there are arrays to call ``function`` with."""
        return all(self.rows(p, function.writes) for p in function.params if isinstance(p, ArrayOf))

    def rows(self, type_: ArrayOf, writable: bool) -> list[Place]:
        """Arrays that are a row, or have one."""
        return [
            p
            for p in self.places
            if p.indices[-1:] == (COLUMNS,) and p.type == type_.element and p.writable >= writable
        ]

    def calling(
        self, function: UserFunction, type_: Element, depth: int, updated: Sequence[str] = ()
    ) -> str:
        """A call; the arguments of a generic function are of ``type_``, some are ``updated``."""
        given = dict(zip(function.updates, updated, strict=True))
        params = [type_] * len(function.params) if function.fits else function.params
        args: list[str] = []
        for k, param in enumerate(params):
            if k in given:
                args.append(given[k])
            elif isinstance(param, ArrayOf):
                row = self.draws.pick(self.rows(param, function.writes))
                outer = [self.index(n, 0) for n in row.indices[:-1]]
                args.append(f"{row.text}[{', '.join(outer)}]" if outer else row.text)
            else:
                args.append(self.expression(param, min(depth, 1)))
            if (
                function.fits is None
                and k + 1 == len(params)
                and not given
                and self.draws.chance(15)
            ):
                args[-1] = f"p{k}={args[-1]}"
        return f"{function.name}({', '.join(args)})"

    # Conditions

    def test(self, depth: int) -> str:
        """A condition."""
        return self.condition(boolean, depth)

    def condition(self, type_: Element, depth: int) -> str:
        """A truth value."""
        choice = self.draws.below(10)
        if choice < 4 or depth <= 0:
            return self.comparison(depth)
        if choice < 6:
            word = self.draws.pick(("and", "or"))
            return f"({self.test(depth - 1)} {word} {self.expression(boolean, depth - 1)})"
        if choice == 6:
            return f"(not {self.test(depth - 1)})"
        composite = [*self.palette.dense, *self.palette.structs]
        if choice == 7 and composite:
            source = self.draws.pick(composite)
            op = self.draws.pick(("==", "!="))
            left = self.expression(source, depth - 1)
            return f"({left} {op} {self.expression(source, depth - 1)})"
        floats = self.palette.with_scalar(lambda s: s.is_float)
        if choice == 8:
            name = self.draws.pick(("isnan", "isinf", "isfinite"))
            return f"kc.{name}({self.expression(self.draws.pick(floats), depth - 1)})"
        return self.cast(boolean, depth - 1)

    def comparison(self, depth: int) -> str:
        """A comparison, at times a chain."""
        numbers = self.palette.with_scalar(lambda s: s.kind != "bool")
        type_ = self.draws.pick(numbers)
        text = f"{self.expression(type_, depth - 1)} {self.draws.pick(_COMPARISONS)} "
        text += self.operand(type_, depth - 1)
        if self.draws.chance(20):
            text += f" {self.draws.pick(_COMPARISONS)} {self.expression(type_, depth - 1)}"
        return f"({text})"

    # Composites

    def construct_struct(self, type_: Element, depth: int) -> str:
        """A struct of its fields; those that are left out are zero."""
        assert isinstance(type_, StructType)
        depth = min(depth, 1)
        chosen = [(n, m) for n, m in type_.fields if self.draws.chance(80)]
        members = [(n, self.expression(m, depth)) for n, m in chosen if isinstance(m, Element)]
        if len(members) == len(type_.fields) and self.draws.chance(50):
            return f"{type_.name}({', '.join(text for _, text in members)})"
        return f"{type_.name}({', '.join(f'{name}={text}' for name, text in members)})"

    def construct(self, type_: Dense, depth: int) -> str:
        """A composite of its components, of one scalar or of another composite."""
        name, draws, depth = self.palette.spell(type_), self.draws, min(depth, 1)
        choice = draws.below(10)
        if choice == 0:
            return f"{name}()"
        if choice < 3 and type_.kind in ("vector", "matrix"):
            return f"{name}({self.operand(type_.scalar, depth)})"
        others = [d for d in self.palette.dense if (d.kind, d.shape) == (type_.kind, type_.shape)]
        if choice < 5 and others and depth > 0:
            return f"{name}({self.expression(draws.pick(others), depth - 1)})"
        if type_.kind == "transform":
            position = Dense("vector", type_.scalar, (3,))
            turn = Dense("quaternion", type_.scalar, (4,))
            return f"{name}({self.expression(position, depth)}, {self.expression(turn, depth)})"
        return f"{name}({', '.join(self.operand(type_.scalar, 0) for _ in range(type_.size))})"

    def dense(self, type_: Element, depth: int) -> str:
        """An operation whose result is a composite."""
        assert isinstance(type_, Dense)
        match type_.kind:
            case "vector":
                options = [self.linear, self.scaled, self.mapped, self.vector]
            case "matrix":
                options = [self.linear, self.scaled, self.mapped, self.matrix]
            case "quaternion":
                options = [self.linear, self.scaled, self.construct, self.quaternion]
            case _:
                options = [self.construct]
        return self.draws.pick(options)(type_, depth)

    def linear(self, type_: Dense, depth: int) -> str:
        """A sum, a difference or a negation."""
        one = self.expression(type_, depth)
        if self.draws.chance(25):
            return f"(-{one})"
        return f"({one} {self.draws.pick('+-')} {self.expression(type_, depth)})"

    def scaled(self, type_: Dense, depth: int) -> str:
        """A product or a quotient with a scalar."""
        one, factor = self.expression(type_, depth), self.operand(type_.scalar, depth)
        if type_.scalar.is_float and self.draws.chance(40):
            return f"({one} / {factor})"
        return f"({one} * {factor})" if self.draws.chance(50) else f"({factor} * {one})"

    def mapped(self, type_: Dense, depth: int) -> str:
        """A built-in or an operator on each component."""
        one, scalar = self.expression(type_, depth), type_.scalar
        choice = self.draws.below(4)
        if choice == 0:
            return f"kc.{self.draws.pick(_FLOAT_UNARY if scalar.is_float else _INT_UNARY)}({one})"
        is_scalar = self.draws.chance(30)
        two = self.operand(scalar, depth) if is_scalar else self.expression(type_, depth)
        if choice == 1 and not scalar.is_float:
            return f"({one} {self.draws.pick(('//', '%', '&', '|', '^', '<<', '>>'))} {two})"
        if choice == 2 and not is_scalar:
            names = ("cw_mul", "cw_div") if scalar.is_float else ("cw_mul",)
            return f"kc.{self.draws.pick(names)}({one}, {two})"
        return f"kc.{self.draws.pick(('min', 'max'))}({one}, {two})"

    def vector(self, type_: Dense, depth: int) -> str:
        """An operation whose result is a vector."""
        size, scalar = type_.size, type_.scalar
        matrices = [d for d in self.palette.dense if d.kind == "matrix" and d.dtype == scalar]
        left = [d for d in matrices if d.extents[0] == size]
        if left and self.draws.chance(50):
            source = self.draws.pick(left)
            other = Dense("vector", scalar, source.extents[1:])
            times = self.draws.pick(("*", "@"))
            one, two = self.expression(source, depth), self.expression(other, depth)
            return f"({one} {times} {two})"
        one = self.expression(type_, depth)
        if size == 3 and self.draws.chance(60):
            return f"kc.cross({one}, {self.expression(type_, depth)})"
        if scalar.is_float and self.draws.chance(60):
            return f"kc.normalize({one})"
        return f"(-{one})"

    def matrix(self, type_: Dense, depth: int) -> str:
        """An operation whose result is a matrix."""
        rows, columns = type_.extents
        scalar = type_.scalar
        choice = self.draws.below(3)
        if choice == 0:
            turned = Dense("matrix", scalar, (columns, rows))
            return f"kc.transpose({self.expression(turned, depth)})"
        if choice == 1:
            inner = self.draws.pick((2, 3))
            left, right = (Dense("matrix", scalar, s) for s in ((rows, inner), (inner, columns)))
            return f"({self.expression(left, depth)} * {self.expression(right, depth)})"
        left, right = (Dense("vector", scalar, (n,)) for n in (rows, columns))
        return f"kc.outer({self.expression(left, depth)}, {self.expression(right, depth)})"

    def quaternion(self, type_: Dense, depth: int) -> str:
        """An operation whose result is a quaternion."""
        one = self.expression(type_, depth)
        if self.draws.chance(50):
            return f"kc.{self.draws.pick(('quat_inverse', 'normalize'))}({one})"
        return f"({one} * {self.expression(type_, depth)})"

    def bounded(self, extent: int) -> str:
        """An int32 from 0 to ``extent - 1``."""
        return f"({self.expression(int32, 1)} % {extent})"
