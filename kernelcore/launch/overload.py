"""``overload``: a generic kernel for given types, called or as a decorator."""

from __future__ import annotations

import ast
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from kernelcore.base.errors import KernelArgumentError, KernelSyntaxError
from kernelcore.language import definition, source
from kernelcore.launch.declare import OfKernel, as_kernel, not_a_kernel
from kernelcore.launch.kernel import Kernel


@typing.overload
def overload(kernel: Callable[..., Any]) -> Any: ...
@typing.overload
def overload(
    kernel: Kernel | OfKernel, types: Sequence[object] | Mapping[str, object]
) -> Kernel: ...
def overload(
    kernel: Kernel | OfKernel | Callable[..., Any],
    types: Sequence[object] | Mapping[str, object] | None = None,
) -> Kernel | OfKernel:
    """The kernel that a generic ``kernel`` is for given types; see ``Kernel.overload``.

    As a decorator of a function without a body, it overloads the generic kernel of the same name
    for the types of the annotations, and the name stays that kernel::

        @kc.kernel
        def scale(x: kc.array[Any], factor: Any):  # Any of typing
            i = kc.tid()
            x[i] *= factor

        @kc.overload
        def scale(x: kc.array[float], factor: float): ...

    Raises:
        KernelArgumentError: ``kernel`` is none, or there is none of that name.
        KernelTypeError: A type does not match the declaration.
        KernelSyntaxError: The decorated function has a body.
    """
    if isinstance(kernel, (Kernel, OfKernel)):
        return as_kernel(kernel).overload({} if types is None else types)
    if types is not None or not isinstance(kernel, FunctionType):
        raise not_a_kernel(kernel)
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    name = kernel.__name__
    found = frame.f_locals.get(name, frame.f_globals.get(name))
    if not isinstance(found, (Kernel, OfKernel)):
        raise KernelArgumentError(
            f"@overload: there is no kernel '{name}' above", remedy="declare it with @kc.kernel"
        )
    body = source.read_source(kernel).tree.body
    if not all(map(_is_empty, body)):
        raise KernelSyntaxError(
            f"@overload: '{name}' has a body",
            source.name_loc(kernel),
            "write '...' as its body: an overload runs the code of the kernel",
        )
    as_kernel(found).overload([wanted for _, wanted, _ in definition.kernel_parameters(kernel)])
    return found


def _is_empty(statement: ast.stmt) -> bool:
    """Whether ``statement`` is ``pass``, ``...`` or a text."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, ast.Pass)
