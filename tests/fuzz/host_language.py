"""Programs as plain Python on the host: the oracle of the frontend.

The program's own syntax tree runs, with operators as calls, and with copies where the kernel
language has values and Python has references.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelcore.builtins import OPS
from kernelcore.builtins.syntax import BINARY, COMPARE, UNARY
from kernelcore.language.composite_types import CLASSES
from kernelcore.language.types import SCALARS, ArrayOf, Dense, Element, Scalar, StructType
from tests.fuzz.host_values import (
    LIBRARY,
    Composite,
    HostDense,
    HostScalar,
    HostStruct,
    Record,
    apply,
    boxed,
    copied,
    scalars,
    type_of,
)
from tests.fuzz.program_arguments import arguments
from tests.fuzz.typed_programs import Program

_BY_NAME = {s.name: s for s in SCALARS}


@dataclass(frozen=True)
class HostArray:
    """The type of an array; the arrays themselves are NumPy's, of objects."""

    type: ArrayOf


class _Rewrite(ast.NodeTransformer):
    """Operators to calls; copies of what is assigned and returned.

    A function that a call assigns parameters of returns their last values, too.
    """

    def __init__(self) -> None:
        # By function the places of such parameters, and their names in the one that is visited.
        self._updates: dict[str, list[int]] = {}
        self._updated: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        typed = [(k, a) for k, a in enumerate(node.args.args) if a.annotation is not None]
        places = [(k, a.arg) for k, a in typed if "kc.ref[" in ast.unparse(a)]
        self._updates[node.name] = [k for k, _ in places]
        self._updated = [name for _, name in places]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) == "kc.address_of":
            return self.visit(node.args[0])
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return _call(
            "_apply", BINARY[type(node.op)].op.name, *map(self.visit, (node.left, node.right))
        )

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _call("_not", operand)
        if isinstance(node.operand, ast.Constant):
            return ast.UnaryOp(node.op, operand)
        return _call("_apply", UNARY[type(node.op)].op.name, operand)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        values = [self.visit(v) for v in (node.left, *node.comparators)]
        names = [COMPARE[type(op)].op.name for op in node.ops]
        links: list[ast.expr] = [
            _call("_apply", n, a, b) for n, a, b in zip(names, values, values[1:], strict=False)
        ]
        return links[0] if len(links) == 1 else ast.BoolOp(ast.And(), links)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        name = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        if isinstance(node.value, ast.Call) and self._updates.get(name):
            call = self.visit(node.value)
            places = [call.args[k] for k in self._updates[name]]
            targets = [*node.targets, *(_assigned(p) for p in places)]
            return ast.Assign([ast.Tuple(targets, ast.Store())], _call("_copy", call))
        return ast.Assign(
            [self.visit(t) for t in node.targets], _call("_copy", self.visit(node.value))
        )

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        old = copy.deepcopy(node.target)
        old.ctx = ast.Load()
        return self.visit(ast.Assign([node.target], ast.BinOp(old, node.op, node.value)))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return node
        value = _call("_declared", node.annotation, self.visit(node.value))
        return ast.Assign([node.target], value)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is None:
            return node
        value = self.visit(node.value)
        if self._updated:
            names = [ast.Name(name, ast.Load()) for name in self._updated]
            value = ast.Tuple([value, *names], ast.Load())
        return ast.Return(_call("_copy", value))


def _assigned(place: ast.expr) -> ast.expr:
    """``place`` as what is assigned."""
    found: Any = copy.deepcopy(place)
    found.ctx = ast.Store()
    return found


def _call(name: str, *args: ast.expr | str) -> ast.Call:
    nodes = [ast.Constant(a) if isinstance(a, str) else a for a in args]
    return ast.Call(ast.Name(name, ast.Load()), nodes, [])


class _Ref:
    """Annotates parameters that a call assigns."""

    def __getitem__(self, type_: Any) -> Any:
        return type_


class Language:
    """What the name ``kc`` stands for; ``point`` is the current thread."""

    ref = _Ref()

    def __init__(self) -> None:
        self.point = 0

    def tid(self) -> Any:
        return np.int32(self.point)

    def kernel(self, pyfunc: Callable[..., None]) -> Callable[..., None]:
        return pyfunc

    def array(self, dtype: Any) -> HostArray:
        return HostArray(ArrayOf(dtype.type, 1))

    def array2d(self, dtype: Any) -> HostArray:
        return HostArray(ArrayOf(dtype.type, 2))

    def vector(self, length: int, dtype: HostScalar) -> HostDense:
        return HostDense(Dense("vector", dtype.type, (length,)))

    def matrix(self, shape: tuple[int, int], dtype: HostScalar) -> HostDense:
        return HostDense(Dense("matrix", dtype.type, shape))

    def quaternion(self, dtype: HostScalar) -> HostDense:
        return HostDense(Dense("quaternion", dtype.type, (4,)))

    def transformation(self, dtype: HostScalar) -> HostDense:
        return HostDense(Dense("transform", dtype.type, (7,)))

    def struct(self, cls: Any) -> HostStruct:
        members = cls.__annotations__
        fields = tuple((name, member.type) for name, member in members.items())
        return HostStruct(StructType(cls.__name__, fields), tuple(members.values()))

    def func(self, pyfunc: Callable[..., Any]) -> _Function:
        return _Function(pyfunc)

    def cw_mul(self, a: Any, b: Any) -> Any:
        return a.like([apply("mul", x, y) for x, y in zip(a.data.flat, b.data.flat, strict=True)])

    def cw_div(self, a: Any, b: Any) -> Any:
        return apply("div", a, b)

    def bitcast(self, x: Any, dtype: HostScalar | HostDense) -> Any:
        data = b"".join(value.tobytes() for value in scalars(x))
        if isinstance(dtype, HostScalar):
            return np.frombuffer(data, dtype.type.numpy)[0]
        made, scalar = dtype.type, dtype.type.scalar
        numbers = boxed(np.frombuffer(data, scalar.numpy), made.extents)
        return Composite(made.kind, scalar, numbers)

    def __getattr__(self, name: str) -> Any:
        if name in _BY_NAME:
            return HostScalar(_BY_NAME[name])
        if name in CLASSES:
            return HostDense(CLASSES[name].kernel_type)
        if name in LIBRARY:
            return LIBRARY[name]
        assert name in OPS
        return lambda *args: apply(name, *args)


class _Function:
    """A function with its overloads; arguments are values."""

    def __init__(self, *overloads: Callable[..., Any]) -> None:
        self.overloads = overloads

    def __call__(self, *args: Any, **last: Any) -> Any:
        args = (*args, *last.values())
        types = [type_of(a) for a in args]
        for overload in self.overloads:
            wanted = [getattr(a, "type", None) for a in overload.__annotations__.values()]
            pairs = zip(wanted, types, strict=False)
            if len(wanted) == len(types) and all(w is None or w == t for w, t in pairs):
                return overload(*(copied(a) for a in args))
        raise AssertionError(f"no overload for {types}")


class _Space(dict[str, Any]):
    """The names of a program; a second function of one name is an overload."""

    def __setitem__(self, name: str, value: Any) -> None:
        old = self.get(name)
        if isinstance(value, _Function) and isinstance(old, _Function):
            value = _Function(*old.overloads, *value.overloads)
        super().__setitem__(name, value)


def _range(*bounds: Any) -> Iterator[Any]:
    return (np.int32(k) for k in builtins.range(*(int(b) for b in bounds)))


def _declared(annotation: Any, value: Any) -> Any:
    return annotation(value) if type(value) in (bool, int, float) else copied(value)


def run_on_host(program: Program, classes: Mapping[str, Any]) -> list[Any]:
    """The arguments after the program ran, with elements of arrays as in memory."""
    language = Language()
    space = _Space(
        kc=language, V=None, Any=None, range=_range, type=lambda v: HostDense(v.type),
        float=HostScalar(_BY_NAME["float32"]), int=HostScalar(_BY_NAME["int32"]),
        bool=HostScalar(_BY_NAME["bool"]), _apply=apply, _copy=copied, _declared=_declared,
        _not=lambda v: np.bool_(not v),
    )  # fmt: skip
    tree = ast.fix_missing_locations(_Rewrite().visit(ast.parse(program.text)))
    code = compile(tree, "<host program>", "exec", dont_inherit=True)
    exec(code, space)
    given = arguments(program, classes)
    args = [
        _boxed(g, p.type) if p.ndim else _host(p.type, g)
        for p, g in zip(program.params, given, strict=True)
    ]
    with np.errstate(all="ignore"):
        for language.point in range(program.points):
            space["kernel"](*args)
    for p, array, elements in zip(program.params, given, args, strict=True):
        if p.ndim:
            for index in np.ndindex(array.shape[: p.ndim]):
                _write(array, index, elements[index])
    return given


def _boxed(array: Any, type_: Element) -> Any:
    """An array of host values."""
    ndim = array.ndim - (len(type_.extents) if isinstance(type_, Dense) else 0)
    shape = array.shape[:ndim]
    elements = np.empty(shape, object)
    for index in np.ndindex(shape):
        elements[index] = _host(type_, array[index])
    return elements


def _host(type_: Element, value: Any) -> Any:
    """A value of kernelcore, or an element in memory, as a host value."""
    match type_:
        case Scalar():
            return value
        case Dense():
            return Composite(type_.kind, type_.scalar, boxed(np.asarray(value).flat, type_.extents))
        case StructType(fields=fields):
            parts = [
                _host(m, value[n] if isinstance(value, np.void) else getattr(value, n))
                for n, m in fields
                if isinstance(m, Element)
            ]
            return Record(type_, parts)


def _write(array: Any, index: tuple[int, ...], value: Any) -> None:
    """Put a host value into memory."""
    match value:
        case Record():
            for name, _ in value.type.fields:
                _write(array[name], index, getattr(value, name))
        case Composite():
            for place in np.ndindex(value.data.shape):
                array[(*index, *place)] = value.data[place]
        case _:
            array[index] = value
