"""Refusal of misspelt keyword arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from kernelcore.base.errors import KernelArgumentError, suggestion

Function = TypeVar("Function", bound=Callable[..., Any])


def checked_keywords(function: Function, name: str | None = None) -> Function:
    """``function``, whose error for an unknown keyword names the parameter that is alike.

    Errors call it ``name``, by default its own name.

    Raises:
        KernelArgumentError: On a call with a keyword that no parameter has.
    """
    code: Any = function.__code__
    names: list[str] = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            # Asked only now: a call without a mistake does not pay for it.
            refuse_unknown(name or function.__name__, kwargs, names)
            raise

    return cast(Function, checked)


def refuse_unknown(function: str, given: Mapping[str, Any], names: list[str]) -> None:
    """Refuse the first keyword in ``given`` that is not among ``names``.

    Raises:
        KernelArgumentError: There is one.
    """
    for name in given:
        if name not in names:
            known = f"its arguments are {', '.join(names)}"
            remedy = suggestion(name, names, known)
            raise KernelArgumentError(f"{function}(): unknown argument '{name}'", remedy=remedy)
