"""Annotations of parameters, results and variables as types."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable
from enum import Enum
from types import NoneType

from kernelcore.base.errors import (
    KernelError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    SrcLoc,
)
from kernelcore.language.by_reference import Reference, updated_parameters
from kernelcore.language.function import Function
from kernelcore.language.source import EXPRESSION_ERRORS, Source
from kernelcore.language.types import (
    ArrayOf,
    Scalar,
    SourceType,
    TypeClass,
    is_pattern,
    scalar_of,
    type_of,
)

_EXPECTED = (
    "annotate it with kc.array[float], kc.array2d[kc.vec3], float, int, kc.float64, "
    "kc.vec3 or a struct"
)


class Open(Enum):
    """Annotations that ask for no type."""

    ANY = "any value"
    FUNCTION = "a function"
    TUPLE = "a tuple"


# What a parameter asks for: a type or pattern, equal types by a name, or nothing.
Wanted = SourceType | Open | typing.TypeVar


def parameter_nodes(source: Source) -> list[ast.arg]:
    """The parameters of a function, in order.

    Raises:
        KernelSyntaxError: It takes a variable number of arguments.
    """
    args = source.tree.args
    for star in (args.vararg, args.kwarg):
        if star is not None:
            raise KernelSyntaxError(
                f"parameter '{star.arg}' takes a variable number of arguments",
                source.loc(star),
                "write the parameters out",
            )
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]


def parameter_type(source: Source, node: ast.arg) -> Wanted:
    """What the annotation of a parameter asks for.

    Raises:
        KernelTypeError: The annotation is no type of the kernel language.
    """
    if node.annotation is None:
        return Open.ANY
    annotation = _evaluate(source, node.arg, node.annotation)
    if isinstance(annotation, Reference):
        annotation = annotation.target
    found = wanted(annotation)
    if found is None:
        name = getattr(annotation, "__name__", "")
        home = getattr(annotation, "__module__", "").partition(".")[0]
        is_array = hasattr(annotation, "dtype") and hasattr(annotation, "shape")
        is_class = (
            not is_array and isinstance(annotation, type) and home not in ("builtins", "kernelcore")
        )
        raise KernelTypeError(
            f"parameter '{node.arg}': unsupported annotation {ast.unparse(node.annotation)}",
            source.loc(node.annotation),
            f"decorate class {name} with @kc.struct" if is_class else _EXPECTED,
        )
    if isinstance(found, typing.TypeVar):
        try:
            bound_of(found)
        except KernelTypeError as error:
            message = f"parameter '{node.arg}': {error.message}"
            raise KernelTypeError(message, source.loc(node.annotation), error.remedy) from None
    return found


def wanted(annotation: object) -> Wanted | None:
    """What ``annotation`` asks for; None if it is no annotation of the kernel language."""
    if annotation is typing.Any:
        return Open.ANY
    origin = typing.get_origin(annotation)
    if annotation is Callable or annotation is Function or origin is Callable:
        return Open.FUNCTION
    if annotation is tuple or origin is tuple:
        return Open.TUPLE
    if isinstance(annotation, typing.TypeVar):
        return annotation
    return type_of(annotation)


def bound_of(variable: typing.TypeVar) -> tuple[Wanted, ...]:
    """What the types that ``variable`` stands for must match one of."""
    limits = variable.__constraints__ or (variable.__bound__ or typing.Any,)
    found = tuple(w for limit in limits if (w := wanted(limit)) is not None)
    if len(found) < len(limits):
        raise KernelTypeError(
            f"type variable {variable}: a bound is no type of the kernel language",
            remedy="bind it to a scalar type, or to vector(length=Any, dtype=Any)",
        )
    return found


def words_of(want: Wanted) -> str:
    """What ``want`` asks for, in words."""
    match want:
        case Open():
            return want.value
        case typing.TypeVar():
            return " or ".join(words_of(limit) for limit in bound_of(want))
        case ArrayOf():
            return f"an {want}"
        case TypeClass(name=name):
            return {"Int": "an integer", "Float": "a float", "Number": "a number"}.get(
                name, "a scalar"
            )
        case _:
            return str(want)


def required_type(source: Source, node: ast.arg) -> Wanted:
    """What the annotation of a parameter of a kernel asks for.

    Raises:
        KernelTypeError: It has none, or asks for a function.
    """
    if node.annotation is None:
        raise KernelTypeError(f"parameter '{node.arg}' has no type", source.loc(node), _EXPECTED)
    if node.arg in updated_parameters(source.pyfunc):
        raise KernelTypeError(
            f"parameter '{node.arg}': a kernel takes no ref",
            source.loc(node.annotation),
            "pass an array of one element",
        )
    found = parameter_type(source, node)
    if found in (Open.FUNCTION, Open.TUPLE):
        raise KernelTypeError(
            f"parameter '{node.arg}': a kernel takes no {found.value.split()[-1]}",
            source.loc(node.annotation),
            "let the kernel use a function of the scope around it"
            if found is Open.FUNCTION
            else "pass a vector or a struct",
        )
    return found


def result_types(source: Source) -> tuple[SourceType, ...] | None:
    """The annotated types of the results of a function, or None where nothing is promised.

    Raises:
        KernelTypeError: The annotation is no type, and no tuple of types.
    """
    node = source.tree.returns
    if node is None:
        return None
    annotation = _evaluate(source, "return", node)
    if annotation is None or annotation is NoneType:
        return ()
    is_tuple = typing.get_origin(annotation) is tuple
    members = typing.get_args(annotation) if is_tuple else (annotation,)
    found = [wanted(m) for m in members]
    if any(f is None for f in found):
        raise KernelTypeError(
            f"unsupported result annotation {ast.unparse(node)}",
            source.loc(node),
            "functions return values: annotate float, kc.vec3, or tuple[float, int]",
        )
    types = tuple(f for f in found if not isinstance(f, Open | typing.TypeVar) and f is not None)
    return types if len(types) == len(found) and not any(is_pattern(t) for t in types) else None


def scalar_annotation(annotation: object, node: ast.expr, loc: SrcLoc | None) -> Scalar:
    """The scalar that the annotation of a variable stands for.

    Raises:
        KernelTypeError: It stands for none.
    """
    found = scalar_of(annotation)
    if found is None:
        raise KernelTypeError(
            f"unsupported annotation {ast.unparse(node)}",
            loc,
            "annotate variables with float, int, bool, kc.float64, kc.int64",
        )
    return found


def _evaluate(source: Source, name: str, node: ast.expr) -> object:
    """The object that an annotation is; a string is evaluated where the function is."""
    found: object = inspect.get_annotations(source.pyfunc).get(name)
    try:
        while isinstance(found, str):
            found = eval(found, source.namespace())
        return found
    except NameError as error:
        raise KernelNameError(
            f"annotation of '{name}': {error}",
            source.loc(node),
            "annotations kept as text see module names and names that the body uses",
        ) from None
    except KernelError as error:
        raise type(error)(error.message, source.loc(node), error.remedy) from None
    except EXPRESSION_ERRORS as error:
        kind = type(error).__name__
        raise KernelTypeError(
            f"annotation of '{name}': {kind}: {error}", source.loc(node), _EXPECTED
        ) from None
