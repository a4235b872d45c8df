"""Syntax trees of Python text, made in any number of threads at once."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Any

# Where eight threads do nothing but parse, one attempt in twenty fails.
_ATTEMPTS = 100


def parse(text: str, file: str = "<unknown>", *, flags: int = 0) -> ast.Module:
    """The tree of the statements ``text``, as ``ast.parse`` makes it.

    Args:
        text: Python text.
        file: The file name in errors.
        flags: As ``compile`` takes them.

    Raises:
        SyntaxError: ``text`` is not Python.
    """
    return _parse(text, file, "exec", flags)


def parse_expression(text: str) -> ast.expr:
    """The tree of the expression ``text``.

    Raises:
        SyntaxError: ``text`` is not an expression of Python.
    """
    return _parse(text, "<unknown>", "eval", 0).body


def _parse(text: str, file: str, mode: str, flags: int) -> Any:
    """The tree of ``text``, also where threads parse at once.

    Some versions of Python, such as 3.11.7, count in one place for all threads how deep a tree is
    (CPython's issue 106905). A callback of the garbage collector, such as JAX's, lets other threads
    parse meanwhile, and Python then raises SystemError for a tree that is right. A lock is no
    remedy: other libraries parse too, and the callback may wait for a thread that needs the lock.
    """
    flags |= ast.PyCF_ONLY_AST
    for _ in range(_ATTEMPTS - 1):
        with suppress(SystemError):
            return compile(text, file, mode, flags, dont_inherit=True)
    return compile(text, file, mode, flags, dont_inherit=True)
