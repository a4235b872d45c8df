"""``@library``: how functions of kernelcore are written in the kernel language itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kernelcore.language.function import Function, Overload

_functions: dict[str, Function] = {}

# Every library function by its public name.
LIBRARY: Mapping[str, Function] = MappingProxyType(_functions)


def library(*, updates: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Function]:
    """Enter the decorated function into the library; equal names are overloads of one function.

    A name that starts with an underscore is not entered: the function is for its module alone.

    Args:
        updates: Parameters that a call assigns; the function returns their new values after its
            result.
    """

    def register(pyfunc: Callable[..., Any]) -> Function:
        name = pyfunc.__name__
        known = pyfunc.__globals__ if name.startswith("_") else _functions
        function = known.setdefault(name, Function(name, is_library=True))
        object.__setattr__(function, "__module__", pyfunc.__module__)
        function.overloads.append(Overload(pyfunc, updates, is_library=True))
        return function

    return register
