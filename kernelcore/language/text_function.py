"""Python functions of texts: for kernels that programs write, and code without a file."""

from __future__ import annotations
import __future__

import ast
import linecache
import sys
import textwrap
from collections.abc import Callable
from types import FrameType
from typing import Any

from kernelcore.base.digest import sha256
from kernelcore.base.errors import KernelSyntaxError, KernelTypeError, SrcLoc
from kernelcore.language import syntax_tree

_FLAGS = __future__.annotations.compiler_flag
_LONG_LINE = 1 << 20


def function_of_text(
    text: object, names: dict[str, Any] | None, decorator: str
) -> Callable[..., Any]:
    """The function that ``text`` defines, whose names stand for what ``names`` has.

    The text is kept in linecache, where errors and the frontend find it. Equal texts have one name
    there.

    Args:
        text: One definition, indented or not, without decorators.
        names: Its globals; by default those of the caller, with the caller's local names, as they
            are, where it is a function.
        decorator: What errors call it by.

    Raises:
        KernelTypeError: ``text`` is not a str.
        KernelSyntaxError: It is not one function that is defined with def; says where.
    """
    if not isinstance(text, str):
        raise KernelTypeError(
            f"{decorator}(source=): expected a str, found {text!r}",
            remedy=f"apply @{decorator} to a function, or give the text of one",
        )
    text = textwrap.dedent(text).strip("\n") + "\n"
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()
    file = f"<{decorator} of text {digest[:16]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    definition = _definition(text, file, decorator)
    if names is None:
        names = _names_of_caller()
    own: dict[str, Any] = {}
    exec(compile(text, file, "exec", flags=_FLAGS, dont_inherit=True), names, own)
    return own[definition.name]


def _definition(text: str, file: str, decorator: str) -> ast.FunctionDef:
    try:
        body = syntax_tree.parse(text, file).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line, column = getattr(error, "lineno", None) or 1, getattr(error, "offset", None) or 1
        raise KernelSyntaxError(
            f"{decorator}(source=): Python cannot parse the text: {getattr(error, 'msg', error)}",
            SrcLoc(file, line, column - 1, column),
            "give the definition of one function",
        ) from None
    found = body[0] if len(body) == 1 else None
    if isinstance(found, ast.FunctionDef) and not found.decorator_list:
        return found
    first = body[1] if len(body) > 1 else found
    if isinstance(found, ast.FunctionDef):
        first = found.decorator_list[0]
    line, column = getattr(first, "lineno", 1), getattr(first, "col_offset", 0)
    raise KernelSyntaxError(
        f"{decorator}(source=): expected one function that is defined with def, without decorators",
        SrcLoc(file, line, column, getattr(first, "end_col_offset", None) or _LONG_LINE),
        "give other functions and constants in globals, or define them around the call",
    )


def _names_of_caller() -> dict[str, Any]:
    """The names around the call of kernelcore, whose own frames come first."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_globals.get("__name__", "").startswith("kernelcore."):
        frame = frame.f_back
    if frame is None:
        return {}
    is_module = frame.f_locals is frame.f_globals
    return frame.f_globals if is_module else {**frame.f_globals, **frame.f_locals}
