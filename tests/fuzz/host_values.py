"""Composites and operations on the host, for an execution of programs that shares no frontend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelcore.builtins import OPS
from kernelcore.builtins.reference import is_narrow, nearest
from kernelcore.language.types import SCALARS, ArrayOf, Dense, Element, Scalar, StructType, boolean
from tests.helpers.interpreter import convert

_SCALARS = {s.numpy: s for s in SCALARS}


def boxed(values: Iterable[Any], shape: tuple[int, ...]) -> Any:
    """``values`` in an array of objects; NumPy would make Python numbers of a list."""
    return np.fromiter(values, object).reshape(shape)


@dataclass(eq=False)
class Composite:
    """A vector, matrix, quaternion or transform; parts share its components."""

    kind: str
    scalar: Scalar
    data: Any

    @property
    def type(self) -> Dense:
        """What the kernel language calls it."""
        return Dense(self.kind, self.scalar, self.data.shape)

    @property
    def dtype(self) -> HostScalar:
        """The conversion to the type of a component."""
        return HostScalar(self.scalar)

    def like(self, values: Any) -> Composite:
        """One of the same type with other components."""
        return Composite(self.kind, self.scalar, boxed(values, self.data.shape))

    def part(self, data: Any) -> Any:
        """What an index or a slice selects."""
        if not isinstance(data, np.ndarray):
            return data
        return Composite("vector" if data.ndim == 1 else "matrix", self.scalar, data)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, key: Any) -> Any:
        return self.part(self.data[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[key] = value.data if isinstance(value, Composite) else value

    def __getattr__(self, name: str) -> Any:
        if name in ("xy", "yz", "zw"):
            start = "xyzw".index(name[0])
            return self[start : start + 2]
        if name == "p":
            return self[0:3]
        if name == "q":
            return Composite("quaternion", self.scalar, self.data[3:7])
        if name in ("x", "y", "z", "w"):
            return self.data["xyzw".index(name)]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("x", "y", "z", "w"):
            self.data["xyzw".index(name)] = value
        elif name in ("xy", "yz", "zw"):
            getattr(self, name)[:] = value
        elif name in ("p", "q"):
            self[slice(0, 3) if name == "p" else slice(3, 7)] = value
        else:
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class HostScalar:
    """A scalar type; calling it converts."""

    type: Scalar

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, np.generic):
            return nearest(value, self.type) if is_narrow(self.type) else self.type(value)
        return convert(value, self.type)


@dataclass(frozen=True)
class HostDense:
    """A composite type; calling it makes a value."""

    type: Dense

    def __call__(self, *args: Any) -> Composite:
        make = HostScalar(self.type.scalar)
        parts: list[Any] = []
        for arg in args:
            parts.extend(arg.data.flat if isinstance(arg, Composite) else [arg])
        if not args:
            parts = [0]
        if len(parts) == 1:
            parts *= self.type.size
        empty = Composite(self.type.kind, self.type.scalar, np.empty(self.type.extents, object))
        return empty.like([make(p) for p in parts])


class Record:
    """A struct; fields are attributes."""

    def __init__(self, type_: StructType, values: Sequence[Any]) -> None:
        self.type = type_
        for (name, _), value in zip(type_.fields, values, strict=True):
            setattr(self, name, value)

    @property
    def values(self) -> list[Any]:
        """The fields in order."""
        return [getattr(self, name) for name, _ in self.type.fields]


@dataclass(frozen=True)
class HostStruct:
    """A struct type; calling it makes a value, of zeros where nothing is given."""

    type: StructType
    members: tuple[HostScalar | HostDense | HostStruct, ...]

    def __call__(self, *args: Any, **fields: Any) -> Record:
        names = [name for name, _ in self.type.fields]
        given = {**dict(zip(names, args, strict=False)), **fields}
        pairs = zip(names, self.members, strict=True)
        return Record(
            self.type,
            [copied(given[n]) if n in given else m(*_nothing(m)) for n, m in pairs],
        )


def _nothing(member: object) -> list[int]:
    return [0] if isinstance(member, HostScalar) else []


def copied(value: Any) -> Any:
    """``value`` with components of its own; views of arrays stay views."""
    match value:
        case Composite():
            return value.like(value.data.flat)
        case Record():
            return Record(value.type, [copied(v) for v in value.values])
        case tuple():
            return tuple(copied(v) for v in value)
        case _:
            return value


def type_of(value: Any) -> Element | ArrayOf:
    """The type of a value, or of a view of an array."""
    if isinstance(value, np.ndarray):
        element = type_of(value.flat[0])
        assert isinstance(element, Element)
        return ArrayOf(element, value.ndim)
    return value.type if isinstance(value, Composite | Record) else _SCALARS[value.dtype]


def scalar_op(name: str, *args: Any) -> Any:
    """A built-in on scalars, of which some may be literals."""
    op = OPS[name]
    typed = next(a for a, c in zip(args, op.params.values(), strict=True) if _is_typed(a, c, op))
    scalar = type_of(typed)
    assert isinstance(scalar, Scalar)
    make = HostScalar(scalar)
    values = [a if isinstance(a, np.generic) else make(a) for a in args]
    result = boolean if op.result == "Bool" else scalar
    assert op.ref is not None
    wide = [np.float32(v) if is_narrow(_SCALARS[v.dtype]) else v for v in values]
    return convert((np.float32 if is_narrow(result) else result.numpy.type)(op.ref(*wide)), result)


def _is_typed(arg: Any, cls: str, op: Any) -> bool:
    """Whether ``arg`` decides the type of the literals; a condition does not."""
    return isinstance(arg, np.generic) and not (cls == "Bool" and len(set(op.params.values())) > 1)


def apply(name: str, *args: Any) -> Any:
    """A built-in or an operator on values of any type."""
    composites = [a for a in args if isinstance(a, Composite | Record)]
    if not composites:
        return scalar_op(name, *args)
    if name in ("equal", "not_equal"):
        same = all(scalar_op("equal", a, b) for a, b in zip(*map(scalars, args), strict=True))
        return np.bool_(same == (name == "equal"))
    if name == "where":
        return args[1] if args[0] else args[2]
    if name == "mul" and len(composites) == 2:
        return multiply(*args)
    if name in ("min", "max") and len(args) == 1:
        first, *rest = scalars(args[0])
        for other in rest:
            first = scalar_op(name, first, other)
        return first
    model = composites[0]
    assert isinstance(model, Composite)
    size = model.data.size
    rows = [a.data.flat if isinstance(a, Composite) else [a] * size for a in args]
    return model.like([scalar_op(name, *row) for row in zip(*rows, strict=True)])


def scalars(value: Any) -> list[Any]:
    """The scalars of a value in order."""
    match value:
        case Composite():
            return list(value.data.flat)
        case Record():
            return [s for v in value.values for s in scalars(v)]
        case _:
            return [value]


def dot(a: Any, b: Any) -> Any:
    """The sum of products, from the first to the last."""
    total: Any = None
    for x, y in zip(scalars(a), scalars(b), strict=True):
        product = scalar_op("mul", x, y)
        total = product if total is None else scalar_op("add", total, product)
    return total


def total(values: Sequence[Any]) -> Any:
    """The sum from the first to the last."""
    first, *rest = values
    for value in rest:
        first = scalar_op("add", first, value)
    return first


def ddot(a: Composite, b: Composite) -> Any:
    """The sum of the products of rows."""
    return total([dot(a[k], b[k]) for k in range(len(a))])


def trace(a: Composite) -> Any:
    """The sum of the diagonal."""
    return total([a.data[k, k] for k in range(len(a))])


def length_sq(a: Composite) -> Any:
    """The squared length."""
    return dot(a, a)


def length(a: Composite) -> Any:
    """The length."""
    square = dot(a, a)
    return scalar_op("sqrt", square) if square > 0 else square


def normalize(a: Composite) -> Composite:
    """``a`` by its length; for length 0 zero, or the identity."""
    size = length(a)
    if size == 0:
        unit = [0, 0, 0, 1] if a.kind == "quaternion" else [0] * len(a)
        return a.like([a.dtype(v) for v in unit])
    return apply("div", a, size)


def cross(a: Composite, b: Composite) -> Composite:
    """The cross product."""
    pairs = ((1, 2), (2, 0), (0, 1))
    terms = [
        [scalar_op("mul", a.data[i], b.data[j]), scalar_op("mul", a.data[j], b.data[i])]
        for i, j in pairs
    ]
    return a.like([scalar_op("sub", *pair) for pair in terms])


def transpose(a: Composite) -> Composite:
    """Rows as columns."""
    return Composite("matrix", a.scalar, a.data.T.copy())


def outer(a: Composite, b: Composite) -> Composite:
    """All products."""
    out = Composite("matrix", a.scalar, np.empty((len(a), len(b)), object))
    return out.like([scalar_op("mul", x, y) for x in a.data for y in b.data])


def quat_inverse(a: Composite) -> Composite:
    """The conjugate."""
    return a.like([*(scalar_op("neg", v) for v in a.data[:3]), a.data[3]])


# Per component of a product of quaternions: sign, place in the first, place in the second.
_HAMILTON = (
    ((1, 3, 0), (1, 0, 3), (1, 1, 2), (-1, 2, 1)),
    ((1, 3, 1), (1, 1, 3), (1, 2, 0), (-1, 0, 2)),
    ((1, 3, 2), (1, 2, 3), (1, 0, 1), (-1, 1, 0)),
    ((1, 3, 3), (-1, 0, 0), (-1, 1, 1), (-1, 2, 2)),
)


def multiply(a: Composite, b: Composite) -> Composite:
    """The product of matrices, of a matrix and a vector, or of quaternions."""
    if a.kind == "quaternion":
        found: list[Any] = []
        for (_, i, j), *rest in _HAMILTON:
            value = scalar_op("mul", a.data[i], b.data[j])
            for sign, m, n in rest:
                product = scalar_op("mul", a.data[m], b.data[n])
                value = scalar_op("add" if sign > 0 else "sub", value, product)
            found.append(value)
        return a.like(found)
    if a.kind == "vector":
        return multiply(transpose(b), a)
    if b.kind == "vector":
        rows = boxed([dot(a[k], b) for k in range(len(a))], (len(a),))
        return Composite("vector", a.scalar, rows)
    columns = transpose(b)
    out = Composite("matrix", a.scalar, np.empty((len(a), len(columns)), object))
    return out.like([dot(a[i], columns[j]) for i in range(len(a)) for j in range(len(columns))])


LIBRARY = {
    f.__name__: f
    for f in (dot, ddot, trace, length_sq, length, normalize, cross, transpose, outer, quat_inverse)
}
