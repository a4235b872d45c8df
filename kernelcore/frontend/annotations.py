"""Annotations of parameters and results as types."""

from __future__ import annotations

import ast
import inspect
import typing
from types import NoneType

from kernelcore.errors import (
    KernelError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    SrcLoc,
)
from kernelcore.frontend.source import Source
from kernelcore.types import ArrayType, Scalar, Type, scalar_of

_EXPECTED = "annotate it with kc.array(dtype=float), kc.array2d[float], float, int or kc.float64"


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


def parameter_type(source: Source, node: ast.arg) -> Type | None:
    """The annotated type of a parameter, or None where there is no annotation.

    Raises:
        KernelTypeError: The annotation is no type of the kernel language.
    """
    if node.annotation is None:
        return None
    annotation = _evaluate(source, node.arg, node.annotation)
    found = annotation if isinstance(annotation, ArrayType) else scalar_of(annotation)
    if found is None and annotation is not typing.Any:
        raise KernelTypeError(
            f"parameter '{node.arg}': unsupported annotation {ast.unparse(node.annotation)}",
            source.loc(node.annotation),
            _EXPECTED,
        )
    return found


def required_type(source: Source, node: ast.arg) -> Type:
    """The annotated type of a parameter of a kernel.

    Raises:
        KernelTypeError: It has none.
    """
    found = parameter_type(source, node)
    if found is None:
        raise KernelTypeError(f"parameter '{node.arg}' has no type", source.loc(node), _EXPECTED)
    return found


def result_types(source: Source) -> tuple[Scalar, ...] | None:
    """The annotated types of the results of a function, or None where there is no annotation.

    Raises:
        KernelTypeError: The annotation is no scalar, and no tuple of scalars.
    """
    node = source.tree.returns
    if node is None:
        return None
    annotation = _evaluate(source, "return", node)
    if annotation is None or annotation is NoneType:
        return ()
    if annotation is typing.Any:
        return None
    is_tuple = typing.get_origin(annotation) is tuple
    members = typing.get_args(annotation) if is_tuple else (annotation,)
    scalars = tuple(s for s in map(scalar_of, members) if s is not None)
    if len(scalars) != len(members):
        raise KernelTypeError(
            f"unsupported result annotation {ast.unparse(node)}",
            source.loc(node),
            "functions return scalars: annotate float, or tuple[float, int]",
        )
    return scalars


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
    except (AttributeError, TypeError, ValueError, SyntaxError) as error:
        raise KernelTypeError(f"annotation of '{name}': {error}", source.loc(node)) from None
