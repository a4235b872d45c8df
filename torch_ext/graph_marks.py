"""Marks that tell torch.compile how to treat functions, made without importing it.

``torch.compiler``'s own functions import ``torch._dynamo``, which takes seconds that eager programs
need not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def constant(function: Function) -> Function:
    """``function``, which torch.compile calls while it captures, and whose result is a constant.

    It does what ``torch.compiler.assume_constant_result`` does.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function


def opaque(function: Callable[..., Any]) -> Callable[[], bool]:
    """A function that has to be called in a capture before ``function``, to keep that opaque.

    torch.compile then records which operators ``function`` calls with fake tensors, and does not
    follow it.
    """

    @constant
    def mark() -> bool:
        torch.compiler.allow_in_graph(function)
        return True

    return mark
