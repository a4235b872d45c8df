"""Definitions: what is read of a kernel or of an overload of a function, once."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelSyntaxError, SrcLoc
from kernelcore.language.annotations import (
    Wanted,
    parameter_nodes,
    parameter_type,
    required_type,
    result_types,
)
from kernelcore.language.function import Overload
from kernelcore.language.source import Source, read_source


@dataclass(frozen=True, slots=True)
class Definition:
    """An overload that has been read.

    Attributes:
        code: Its code.
        source: Its text.
        nodes: Its parameters.
        wanted: What each of them asks for.
        signature: How Python binds arguments to them.
        captures: Those that a call does not write, but passes from around a nested function.
    """

    code: CodeType
    source: Source
    nodes: tuple[ast.arg, ...]
    wanted: tuple[Wanted, ...]
    signature: inspect.Signature
    captures: tuple[str, ...]


def define(overload: Overload) -> Definition:
    """Read ``overload``, once for each code that its function has.

    Raises:
        KernelError: Its source or an annotation is not in the kernel language.
    """
    known: list[Definition] = overload.read
    code = overload.pyfunc.__code__
    if known and known[0].code is code and known[0].source.is_current:
        return known[0]
    return remember(overload, read_source(overload.pyfunc))


def remember(overload: Overload, source: Source) -> Definition:
    """Say that the text of ``overload`` is ``source``."""
    nodes = tuple(parameter_nodes(source))
    wanted = tuple(parameter_type(source, node) for node in nodes)
    signature = inspect.signature(overload.pyfunc)
    found = Definition(
        overload.pyfunc.__code__, source, nodes, wanted, signature, overload.captures
    )
    overload.read[:] = [found]
    return found


def kernel_parameters(pyfunc: Callable[..., Any]) -> tuple[tuple[str, Wanted, SrcLoc | None], ...]:
    """Names, annotated types and places of the parameters of the kernel ``pyfunc``.

    Raises:
        KernelError: They are not parameters of a kernel.
    """
    source = read_source(pyfunc)
    if pyfunc.__code__.co_name == "<lambda>":
        raise KernelSyntaxError(
            "a kernel is defined with def, found a lambda",
            source.loc(source.tree),
            "write @kernel above a def whose parameters are annotated",
        )
    for default in (*source.tree.args.defaults, *source.tree.args.kw_defaults):
        if default is not None:
            raise KernelSyntaxError(
                "kernel parameters have no defaults",
                source.loc(default),
                "pass the value when you launch the kernel",
            )
    if result_types(source) != () and source.tree.returns is not None:
        raise KernelSyntaxError(
            "a kernel returns nothing",
            source.loc(source.tree.returns),
            "write results to arrays, and leave the annotation out",
        )
    nodes = parameter_nodes(source)
    return tuple((node.arg, required_type(source, node), source.loc(node)) for node in nodes)
