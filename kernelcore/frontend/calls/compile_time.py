"""Compile-time evaluation: ``static(...)`` and types that kernels make."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast

from kernelcore.base.errors import KernelError, KernelTypeError, SrcLoc
from kernelcore.frontend.scope import Names
from kernelcore.frontend.values.host_value import host_value
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.value import (
    ArrayChoice,
    ArrayView,
    CompositeValue,
    Static,
    Value,
    describe_type,
    members_of,
)
from kernelcore.ir.core import Const, Var
from kernelcore.language import composite_types
from kernelcore.language.bound_names import MISSING, note_attribute
from kernelcore.language.composite import value_class
from kernelcore.language.source import EXPRESSION_ERRORS
from kernelcore.language.types import Dense, Scalar, StructType, is_pattern, type_of

# Type factories and the names of their keywords.
FACTORIES: Mapping[object, tuple[str, ...]] = MappingProxyType(
    {
        composite_types.vector: ("length", "dtype"),
        composite_types.matrix: ("shape", "dtype"),
        composite_types.quaternion: ("dtype",),
        composite_types.transformation: ("dtype",),
    }
)


T = TypeVar("T")


def constant(value: T) -> T:
    """``value`` itself, a number, vector, matrix, struct or tuple that kernels may use by its name.

    Raises:
        KernelTypeError: Kernels cannot use it.
    """
    host_value(value, repr(value), None)
    return value


def static(expr: Any) -> Any:
    """``expr`` as Python evaluates it when the kernel is compiled, used as a constant.

    The expression sees the names around the kernel; its value must be a number, a vector, matrix or
    struct, a tuple of these, a type or a function. On the host it is ``expr`` itself.
    """
    return expr


def evaluate_static(names: Names, node: ast.Call, local: Mapping[str, Value]) -> Value:
    """The value of a call of ``static``, which may use the constants among the variables ``local``.

    Raises:
        KernelTypeError: It does not take one expression, or that fails.
    """
    loc = names.loc(node)
    if len(node.args) != 1 or node.keywords:
        raise KernelTypeError("static() takes one expression", loc, "write static(expression)")
    facts: dict[str, object] = {}
    expr = _Facts(local, facts).visit(copy.deepcopy(node.args[0]))
    used = {n.id for n in ast.walk(expr) if isinstance(n, ast.Name)}
    unknown = sorted(name for name in used if name in local and not _is_known(local[name]))
    if unknown:
        raise KernelTypeError(
            f"static() uses '{unknown[0]}', which is known at run time only",
            loc,
            "use names of the scope around the kernel, and literals",
        )
    known = {name: _object(value) for name, value in local.items() if _is_known(value)}
    around = _names_around(names, expr, known)
    code = compile(ast.Expression(expr), "<static>", "eval")
    try:
        found: object = eval(code, {**names.namespace(), **around, **known, **facts})
    except KernelError as error:
        raise type(error)(f"static(): {error.message}", loc, error.remedy) from None
    except EXPRESSION_ERRORS as error:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise KernelTypeError(
            f"static(): {text}",
            loc,
            "Python evaluates the expression once, while the kernel is compiled",
        ) from None
    return host_value(found, "static(...)", loc)


class _Facts(ast.NodeTransformer):
    """``len(v)``, ``type(v)``, ``v.dtype``, ``v.shape`` of run-time variables, by hidden names.

    Args:
        local: The variables.
        facts: Takes what the hidden names stand for.
    """

    def __init__(self, local: Mapping[str, Value], facts: dict[str, object]) -> None:
        self._local = local
        self._facts = facts

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
            found = self._fact(node.args[0], node.func.id)
            if node.func.id in ("len", "type") and node.func.id not in self._local and found:
                return self._named(node, found[0])
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        found = self._fact(node.value, node.attr)
        return self._named(node, found[0]) if found else self.generic_visit(node)

    def _fact(self, node: ast.expr, what: str) -> tuple[object] | None:
        """What is known of the variable ``node``, in a tuple of one."""
        value = self._local.get(node.id) if isinstance(node, ast.Name) else None
        match what, value:
            case (("len" | "length"), CompositeValue(Dense() as type_, _)):
                return (type_.extents[0],)
            case "len", tuple():
                return (len(value),)
            case "type", CompositeValue(type_, _):
                return (python_class(type_),)
            case "type", Var(type=Scalar() as dtype):
                return (dtype,)
            case "shape", CompositeValue(Dense() as type_, _):
                return (type_.shape,)
            case "dtype", CompositeValue(Dense() as type_, _):
                return (type_.dtype,)
            case "dtype", ArrayView() | ArrayChoice():
                return (python_class(value.element),)
            case "ndim", ArrayView() | ArrayChoice():
                return (len(value.free),)
            case _:
                return None

    def _named(self, node: ast.expr, found: object) -> ast.AST:
        name = f"$fact{len(self._facts)}"
        self._facts[name] = found
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def python_class(type_: object) -> object:
    """The Python class of a composite type; other types are themselves."""
    return value_class(type_) if isinstance(type_, Dense) else type_


def _names_around(names: Names, expr: ast.expr, known: Mapping[str, Any]) -> dict[str, Any]:
    """What the names in ``expr`` stand for; ``bound_names`` is told of their attributes, too."""
    found: dict[str, Any] = {}

    def visit(node: ast.AST) -> Any:
        match node:
            case ast.Name(id=name) if name not in known:
                value = names.find(name)
                if value is not MISSING:
                    found[name] = value
                return value
            case ast.Attribute(value=base, attr=attr):
                owner = visit(base)
                # No code of a user runs twice.
                return MISSING if owner is MISSING else note_attribute(owner, attr)
            case _:
                for child in ast.iter_child_nodes(node):
                    visit(child)
                return MISSING

    visit(expr)
    return found


def _is_known(value: Value) -> bool:
    return isinstance(value, UntypedLiteral | Const | Static)


def _object(value: Value) -> object:
    return value.obj if isinstance(value, Static) else getattr(value, "value", None)


def concrete(type_: Dense | StructType, loc: SrcLoc | None) -> Dense | StructType:
    """``type_``, which must be no pattern.

    Raises:
        KernelTypeError: It stands for several types.
    """
    if is_pattern(type_):
        raise KernelTypeError(
            f"{type_} has no values: it stands for several types",
            loc,
            "give its length and its dtype",
        )
    return type_


def make_type(
    factory: object, args: Sequence[Value], keywords: Mapping[str, Value], loc: SrcLoc | None
) -> tuple[Dense, Sequence[Value]]:
    """The type that ``vector(..., length=, dtype=)`` or a sibling makes, and its components.

    What is not given follows from the components.

    Raises:
        KernelTypeError: The type does not follow.
    """
    wanted = FACTORIES[factory]
    if factory is composite_types.transformation:
        args = [*args, *(keywords[name] for name in ("p", "q") if name in keywords)]
        keywords = {name: v for name, v in keywords.items() if name not in ("p", "q")}
    unknown = [k for k in keywords if k not in wanted]
    if unknown:
        name = getattr(factory, "__name__", "")
        raise KernelTypeError(
            f"{name}(): '{unknown[0]}': no such argument", loc, f"give {' and '.join(wanted)}"
        )
    given = {name: _static_object(value, loc) for name, value in keywords.items()}
    if "dtype" not in given:
        typed = [t for a in args if (t := _scalar_of(a)) is not None]
        given["dtype"] = typed[0] if typed else float
    if "length" in wanted and "length" not in given:
        given["length"] = sum(len(members_of(a) or (a,)) for a in args)
    only = args[0] if len(args) == 1 else None
    if "shape" in wanted and isinstance(only, CompositeValue) and isinstance(only.type, Dense):
        given.setdefault("shape", only.type.extents)
    if "shape" in wanted and "shape" not in given:
        raise KernelTypeError(
            "the shape of the matrix is not known", loc, "give shape=(rows, columns)"
        )
    assert callable(factory)
    make: Callable[..., object] = factory
    try:
        found = type_of(make(*(given[name] for name in wanted)))
    except KernelError as error:
        raise type(error)(error.message, loc, error.remedy) from None
    assert isinstance(found, Dense)
    concrete(found, loc)
    return found, args


def _scalar_of(value: Value) -> Scalar | None:
    """The type of a scalar, or of the components of a composite; None of literals."""
    match value:
        case Const(type=Scalar() as type_) | Var(type=Scalar() as type_):
            return type_
        case CompositeValue(Dense() as type_, _):
            return type_.scalar
        case _:
            return None


def called_type(
    factory: object, args: Sequence[Value], keywords: Mapping[str, Value], loc: SrcLoc | None
) -> object:
    """The class that ``vector(3, float)`` is where it is called for a value.

    Raises:
        KernelTypeError: Its length, shape or dtype is not known.
    """
    positional = [_static_object(a, loc) for a in args]
    named = {name: _static_object(value, loc) for name, value in keywords.items()}
    assert callable(factory)
    make: Callable[..., object] = factory
    try:
        return make(*positional, **named)
    except (KernelError, TypeError) as error:
        message = error.message if isinstance(error, KernelError) else str(error)
        raise KernelTypeError(message, loc, "give its length or shape, and its dtype") from None


_MOST_COMPONENTS = 1024


def makes_zeros(callee: object) -> bool:
    """Whether ``callee`` is ``kernelcore.zeros``."""
    return _home(callee) == ("kernelcore.runtime.array.creation", "zeros")


def makes_array(callee: object) -> bool:
    """Whether ``callee`` is ``kernelcore.array``, or a dialect's."""
    return _home(callee) in (
        ("kernelcore.runtime.array.array", "Array"),
        ("kernelcore.compat.warp.arrays", "array"),
    )


def _home(callee: object) -> tuple[object, object]:
    """The module and the name of a function or class; the runtime is not imported for them."""
    return getattr(callee, "__module__", None), getattr(callee, "__name__", None)


def zeros_type(args: Sequence[Value], keywords: Mapping[str, Value], loc: SrcLoc | None) -> Dense:
    """The type of ``zeros(shape, dtype)`` in a kernel: a vector or a matrix of that shape.

    Raises:
        KernelTypeError: The shape is not known, has more than two extents, or is too large.
    """
    given = {**dict(zip(("shape", "dtype"), args, strict=False)), **keywords}
    found = {name: _static_object(value, loc) for name, value in given.items()}
    shape, dtype = found.pop("shape", None), found.pop("dtype", float)
    extents = cast("tuple[object, ...]", shape) if isinstance(shape, tuple) else (shape,)
    count = 1
    for extent in extents:
        count *= extent if isinstance(extent, int) else 0
    if found or not 1 <= len(extents) <= 2 or not 1 <= count <= _MOST_COMPONENTS:
        raise KernelTypeError(
            "in a kernel zeros() takes one or two extents, of at most "
            f"{_MOST_COMPONENTS} elements together, and a dtype",
            loc,
            "write zeros(shape=(3, 4), dtype=float), or pass an array as a parameter",
        )
    try:
        found_type = type_of(zeros_class(extents, dtype))
    except KernelError as error:
        raise type(error)(error.message, loc, error.remedy) from None
    assert isinstance(found_type, Dense)
    return found_type


def zeros_class(extents: tuple[Any, ...], dtype: object) -> Any:
    """The class of what ``zeros`` makes in a kernel: a vector, or a matrix.

    Raises:
        KernelTypeError: There is no such class.
    """
    row = type_of(dtype)
    if len(extents) == 1 and isinstance(row, Dense) and row.kind == "vector":
        # Its rows are the vectors.
        extents, dtype = (*extents, row.extents[0]), row.dtype
    if len(extents) == 1:
        return composite_types.vector(extents[0], dtype)
    return composite_types.matrix(extents, dtype)


def _static_object(value: Value, loc: SrcLoc | None) -> object:
    match value:
        case Static(obj):
            return obj
        case UntypedLiteral(number):
            return number
        case tuple():
            return tuple(_static_object(v, loc) for v in value)
        case _:
            raise KernelTypeError(
                f"expected a length, shape or type, found {describe_type(value)}",
                loc,
                "give a literal, a type, or a number from outside of the kernel",
            )
