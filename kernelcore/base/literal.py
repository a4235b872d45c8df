"""Values that files keep as literals of Python, and the check that they have the expected types."""

from __future__ import annotations

import ast
from typing import Any, cast


def read(stored: bytes) -> Any:
    """The value of a literal; None of other text."""
    try:
        return ast.literal_eval(stored.decode())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def is_like(value: Any, types: Any) -> bool:
    """Whether ``value`` has the types of ``types``."""
    if isinstance(types, type):
        return type(value) is types
    if isinstance(types, list):
        (element,) = cast("list[Any]", types)
        return isinstance(value, list | tuple) and all(
            is_like(v, element) for v in cast("list[Any]", value)
        )
    if not isinstance(value, tuple) or len(cast("tuple[Any]", value)) != len(types):
        return False
    return all(map(is_like, cast("tuple[Any]", value), types))
