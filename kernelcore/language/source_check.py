"""Whether the text in a file is that of the code that Python runs."""

from __future__ import annotations
import __future__

import ast
import copy
import dis
import inspect
import marshal
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import CodeType
from typing import Any, cast
from weakref import WeakKeyDictionary

from kernelcore.base.errors import KernelSyntaxError, SrcLoc

_LONG_LINE = 1 << 20
_HAS_METHODS = "LOAD_METHOD" in dis.opmap
_LOAD_METHOD = "LOAD_METHOD" if _HAS_METHODS else "LOAD_ATTR"
_NO_PARAMETERS = ast.arguments([], [], None, [], [], None, [])
_FUTURE_FLAGS = sum(getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)


def note_file(pyfunc: Callable[..., Any]) -> None:
    """Remember the state of the file that defines ``pyfunc``, when it is defined."""
    if pyfunc not in _file_states:
        _file_states[pyfunc] = _file_state(pyfunc.__code__.co_filename)


def _file_state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


_file_states: WeakKeyDictionary[Callable[..., Any], tuple[int, int] | None] = WeakKeyDictionary()


def check_text(pyfunc: Callable[..., Any], tree: ast.FunctionDef) -> None:
    """Check that ``tree`` is the text of the code of ``pyfunc``, which Python runs.

    The text is compiled, and its code compared. Annotations inside the body leave no trace in code,
    so the file of a text that has some must be as it was when the function was defined.

    Raises:
        KernelSyntaxError: It is another text.
    """
    code = pyfunc.__code__
    wanted, names = _structure(code), _names(code)
    # Calls of attributes of what the file imports have other code than those of other objects.
    is_same = any(_structure(found) == wanted for found in _compiled(pyfunc, tree, names)) or any(
        _structure(found) == wanted
        for found in _compiled(pyfunc, tree, names - _method_owners(code))
    )
    # What rewrites assertions, as pytest does, uses names that no text has.
    is_rewritten = any("@" in name for name in (*code.co_names, *code.co_varnames))
    if not is_same and not (is_rewritten and tree.name == code.co_name):
        raise other_text(pyfunc)
    is_annotated = any(isinstance(n, ast.AnnAssign) for stmt in tree.body for n in ast.walk(stmt))
    state = _file_states.get(pyfunc)
    if is_annotated and state is not None and state != _file_state(code.co_filename):
        raise KernelSyntaxError(
            f"the file of '{code.co_name}' has changed since it was defined",
            start_of(pyfunc),
            "run the definition again: annotations in its body are read from the file",
        )


def other_text(pyfunc: Callable[..., Any]) -> KernelSyntaxError:
    """The error for a function whose file does not hold its text."""
    return KernelSyntaxError(
        f"the file of '{pyfunc.__code__.co_name}' has changed since it was defined, "
        "or holds the text of other code",
        start_of(pyfunc),
        "run the definition again: a kernel is read when it is first needed; code that exec() runs "
        "needs a file name of its own and an entry in linecache",
    )


def _compiled(
    pyfunc: Callable[..., Any], tree: ast.FunctionDef, imported: Iterable[str]
) -> Iterator[CodeType]:
    """The code of functions of the name of ``tree`` in its text, in a file with some imports."""
    code = pyfunc.__code__
    tree = copy.copy(tree)
    tree.decorator_list = []
    # The functions around it are one here, which has their variables; private names start with
    # the name of the class around it.
    *_, owner, _ = ("<locals>", *code.co_qualname.split("."))
    is_method = owner.isidentifier()
    inner: ast.stmt = ast.ClassDef(owner, [], [], [tree], []) if is_method else tree
    own = [name for name in (tree.name, owner) if name.isidentifier()]
    around: list[ast.stmt] = [ast.Global([n]) for n in own if n not in code.co_freevars]
    around += [ast.Assign([ast.Name(n, ast.Store())], ast.Constant(0)) for n in code.co_freevars]
    function = ast.FunctionDef("around", _NO_PARAMETERS, [*around, inner], [])
    imports = [ast.Import([ast.alias(name)]) for name in imported if name.isidentifier()]
    module = ast.fix_missing_locations(ast.Module([*imports, function], []))
    flags = code.co_flags & _FUTURE_FLAGS
    try:
        pending = [compile(module, code.co_filename, "exec", flags, dont_inherit=True)]
    except (SyntaxError, ValueError):
        return
    while pending:
        inner_codes = [c for c in pending.pop().co_consts if isinstance(c, CodeType)]
        yield from (c for c in inner_codes if c.co_name == code.co_name)
        pending += inner_codes


def _names(code: CodeType) -> set[str]:
    """The names in ``code`` and in the functions inside."""
    own = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    return own.union(*(_names(c) for c in code.co_consts if isinstance(c, CodeType)))


def _method_owners(code: CodeType) -> set[str]:
    """The names of which an attribute is called as a method, without a copy of it."""
    found: set[str] = set()
    for loaded, instruction in pairwise(dis.get_instructions(code)):
        # Python 3.12 made one instruction of two.
        is_method = instruction.opname == _LOAD_METHOD and (
            _HAS_METHODS or (instruction.arg or 0) & 1
        )
        if is_method:
            names = loaded.argval if isinstance(loaded.argval, tuple) else (loaded.argval,)
            found.update(cast("Sequence[str]", names[-1:]))
    return found.union(*(_method_owners(c) for c in code.co_consts if isinstance(c, CodeType)))


def _structure(code: CodeType) -> tuple[object, ...]:
    """What ``code`` does, wherever it stands."""
    consts = [
        _structure(c) if isinstance(c, CodeType) else marshal.dumps(c, 2) for c in code.co_consts
    ]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    return code.co_code, tuple(consts), names, counts, code.co_flags & ~inspect.CO_NESTED


def start_of(pyfunc: Callable[..., Any]) -> SrcLoc:
    """The line on which ``pyfunc`` starts."""
    code = pyfunc.__code__
    return SrcLoc(code.co_filename, code.co_firstlineno, 0, _LONG_LINE)
