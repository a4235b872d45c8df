"""Compile-time evaluation: ``static(...)`` and types that kernels make."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from kernelcore.base.errors import KernelError, KernelTypeError, SrcLoc
from kernelcore.frontend.scope import Names
from kernelcore.frontend.values.host_value import host_value
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.value import Static, Value, describe_type
from kernelcore.ir.core import Const
from kernelcore.language import composite_types
from kernelcore.language.bound_names import MISSING, note_attribute
from kernelcore.language.source import EXPRESSION_ERRORS
from kernelcore.language.types import Dense, StructType, is_pattern, type_of

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
    (expr,) = node.args
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
        found: object = eval(code, {**names.namespace(), **around, **known})
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
    unknown = [k for k in keywords if k not in wanted]
    if unknown:
        name = getattr(factory, "__name__", "")
        raise KernelTypeError(
            f"{name}(): '{unknown[0]}': no such argument", loc, f"give {' and '.join(wanted)}"
        )
    given = {name: _static_object(value, loc) for name, value in keywords.items()}
    if "dtype" not in given:
        typed = [a.type for a in args if isinstance(a, Const)] or [
            t for a in args if (t := getattr(a, "type", None)) is not None
        ]
        given["dtype"] = typed[0] if typed else float
    if "length" in wanted and "length" not in given:
        given["length"] = len(args)
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
                "types are made of literals and types",
            )
