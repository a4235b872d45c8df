"""Whether the text in a file is that of the code that Python runs."""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import marshal
import os
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

from kernelcore.base.errors import KernelSyntaxError, SrcLoc

_LONG_LINE = 1 << 20
_FUTURE_FLAGS = sum(getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
# The time of change and the size of the files of functions, when they were defined.
_file_states: WeakKeyDictionary[Callable[..., Any], tuple[int, int] | None] = WeakKeyDictionary()


def note_file(pyfunc: Callable[..., Any]) -> None:
    """Remember the state of the file that defines ``pyfunc``, when it is defined."""
    if pyfunc not in _file_states:
        _file_states[pyfunc] = _file_state(pyfunc.__code__.co_filename)


def is_outdated(pyfunc: Callable[..., Any], tree: ast.FunctionDef) -> bool:
    """Whether the file has changed since ``pyfunc`` was defined, and its code may not tell.

    Annotations inside the body leave no trace in code.
    """
    state = _file_states.get(pyfunc)
    if state is None or state == _file_state(pyfunc.__code__.co_filename):
        return False
    return any(isinstance(n, ast.AnnAssign) for stmt in tree.body for n in ast.walk(stmt))


def _file_state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def check_text(pyfunc: Callable[..., Any], tree: ast.FunctionDef) -> None:
    """Check that ``tree`` is the text of the code of ``pyfunc``, which Python runs.

    The file is compiled, and its code compared.

    Raises:
        KernelSyntaxError: It is another text.
    """
    code = pyfunc.__code__
    text = "".join(file_lines(code))
    is_same = any(_is_in(text, code, by_statement=by_statement) for by_statement in (False, True))
    # What rewrites assertions, as pytest does, uses names that no text has.
    is_rewritten = any("@" in name for name in (*code.co_names, *code.co_varnames))
    is_same = (is_same or is_rewritten) and _annotated(tree) == pyfunc.__annotations__.keys()
    if not is_same or is_outdated(pyfunc, tree):
        raise other_text(pyfunc)


def _is_in(text: str, code: CodeType, *, by_statement: bool) -> bool:
    """Whether the text of a file defines a function of ``code`` on the line of ``code``."""
    wanted = _structure(code)
    return any(
        c.co_firstlineno == code.co_firstlineno and _structure(c) == wanted
        for c in _codes(text, code.co_flags & _FUTURE_FLAGS, by_statement)
        if c.co_name == code.co_name
    )


def _annotated(tree: ast.FunctionDef) -> set[str]:
    """The annotated names of a signature, as ``__annotations__`` has them."""
    args = tree.args
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    found = {a.arg for a in every if a is not None and a.annotation is not None}
    return found | ({"return"} if tree.returns is not None else set())


def file_lines(code: CodeType) -> list[str]:
    """The lines of the file that ``code`` is from."""
    linecache.checkcache(code.co_filename)
    # Python's own search finds more, and asks every module first.
    return linecache.getlines(code.co_filename) or inspect.findsource(code)[0]


def other_text(pyfunc: Callable[..., Any]) -> KernelSyntaxError:
    """The error for a function whose file does not hold its text."""
    return KernelSyntaxError(
        f"the file of '{pyfunc.__code__.co_name}' has changed since it was defined, "
        "or holds the text of other code",
        start_of(pyfunc),
        "run the definition again: a kernel is read when it is first needed; code that exec() runs "
        "needs a file name of its own and an entry in linecache",
    )


@lru_cache(maxsize=4)
def _codes(text: str, flags: int, by_statement: bool) -> Sequence[CodeType]:
    """The code of all functions that the text of a file defines.

    IPython compiles the statements of a cell one by one. Python then calls functions of a module
    that the cell imports by other instructions.
    """
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(text, "", "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
            parts = [ast.Module([s], []) for s in tree.body] if by_statement else [tree]
            found = [compile(part, "", "exec", flags, dont_inherit=True) for part in parts]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ()
    # It grows while it is read.
    for code in found:
        found += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


def _structure(code: CodeType) -> tuple[object, ...]:
    """What ``code`` does, wherever it stands."""
    consts = [
        _structure(c) if isinstance(c, CodeType) else marshal.dumps(c, 2) for c in code.co_consts
    ]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    return code.co_code, tuple(consts), names, counts, code.co_flags


def start_of(pyfunc: Callable[..., Any]) -> SrcLoc:
    """The line on which ``pyfunc`` starts."""
    code = pyfunc.__code__
    return SrcLoc(code.co_filename, code.co_firstlineno, 0, _LONG_LINE)
