"""The text of the file that defines a function, and whether it is that of the code Python runs.

The text is kept when a decorator of kernelcore sees the function: edits of the file after that
change neither what Python runs nor what is compiled.
"""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
import io
import linecache
import marshal
import os
import stat
import tokenize
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kernelcore.base.errors import KernelSyntaxError, SrcLoc
from kernelcore.base.threads import cached_property
from kernelcore.language import syntax_tree

if TYPE_CHECKING:
    from kernelcore.language.source import Source

_LONG_LINE = 1 << 20
_FUTURE_FLAGS = sum(getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
# Operations that say which variable, constant, attribute or operator a place of the text has.
_WITH_VALUE = {
    *(*dis.hasconst, *dis.hasname, *dis.haslocal, *dis.hasfree, *dis.hascompare),
    dis.opmap["BINARY_OP"],
}


class FileText:
    """The text of a file as it was at one time."""

    def __init__(self, content: Sequence[str] | bytes) -> None:
        # Bytes are decoded when the text is first read, which it need not be.
        self.content = content

    @cached_property
    def lines(self) -> Sequence[str]:
        """Its lines, each with an end; none where it is no text."""
        if not isinstance(self.content, bytes):
            # Programs may leave the ends out, and str.splitlines also cuts at form feeds.
            has_ends = any(line.endswith(("\n", "\r")) for line in self.content)
            text = ("" if has_ends else "\n").join(self.content)
            return io.StringIO(text + "\n", newline=None).readlines()
        file = io.BytesIO(self.content + b"\n")
        try:
            encoding, _ = tokenize.detect_encoding(file.readline)
            file.seek(0)
            return io.TextIOWrapper(file, encoding).readlines()
        except (LookupError, SyntaxError, ValueError):
            return []

    @cached_property
    def whole(self) -> str:
        """All of it."""
        return "".join(self.lines)


# The code objects of functions, and the texts of their files when they were first seen.
_texts: WeakKeyDictionary[Callable[..., Any], tuple[CodeType, FileText]] = WeakKeyDictionary()


def note_text(pyfunc: Callable[..., Any]) -> FileText | None:
    """Keep the text of the file that defines ``pyfunc`` as it is when it is first asked for.

    Decorators ask when they define the function. None where only ``text_of`` finds it.
    """
    code = pyfunc.__code__
    known, text = _texts.get(pyfunc, (None, None))
    if known is code:
        return text
    entry: Any = linecache.cache.get(code.co_filename, ())
    # The time of change is None in what notebooks and programs themselves have put there.
    is_given = len(entry) > 1 and entry[1] is None
    text = FileText(entry[2]) if is_given else _text_of_file(code.co_filename)
    if text is not None:
        _texts[pyfunc] = code, text
    return text


def text_of(pyfunc: Callable[..., Any]) -> FileText:
    """The text of the file that defines ``pyfunc``, kept or read.

    Raises:
        OSError: There is none.
    """
    text = note_text(pyfunc)
    if text is None:
        code = pyfunc.__code__
        linecache.checkcache(code.co_filename)
        # Python's own search finds more, and asks every module first.
        text = FileText(linecache.getlines(code.co_filename) or inspect.findsource(code)[0])
        _texts[pyfunc] = code, text
    return text


def forget_text(pyfunc: Callable[..., Any]) -> None:
    """Read the text of ``pyfunc`` anew when it is next needed: what was kept is of no use."""
    _texts.pop(pyfunc, None)
    _read.cache_clear()


def _text_of_file(path: str) -> FileText | None:
    try:
        status = os.stat(path)
        # Reading a pipe takes what it holds from the program.
        is_file = stat.S_ISREG(status.st_mode)
        return _read(path, status.st_mtime_ns, status.st_size) if is_file else None
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=8)
def _read(path: str, _time: int, _size: int) -> FileText:
    """The text of a file, once for the functions that it defines."""
    with open(path, "rb") as file:
        return FileText(file.read())


def check_text(source: Source) -> None:
    """Check that the text of a function is that of its code.

    The text is compiled, and the code compared: what it does, and the place of each operation.

    Raises:
        KernelSyntaxError: It is another text.
    """
    is_same = any(_is_in_text(source, by_statement=by) for by in (False, True))
    if not is_same or _annotated(source.tree) != source.pyfunc.__annotations__.keys():
        raise other_text(source.pyfunc)


def _is_in_text(source: Source, *, by_statement: bool) -> bool:
    """Whether the text defines a function of the same code on the line that the code says."""
    code = source.pyfunc.__code__
    # What rewrites assertions, as pytest does, uses names that no text has.
    is_rewritten = any("@" in name for name in (*code.co_names, *code.co_varnames))
    asserts = _lines_of_asserts(source) if is_rewritten else set[int]()
    return any(
        _is_same(found, code)
        or (is_rewritten and _operations(found, asserts) == _operations(code, asserts))
        for found in _codes(source.file_text.whole, code.co_flags & _FUTURE_FLAGS, by_statement)
        if (found.co_name, found.co_firstlineno) == (code.co_name, code.co_firstlineno)
    )


def _lines_of_asserts(source: Source) -> set[int]:
    return {
        line + source.line_offset
        for n in ast.walk(source.tree)
        if isinstance(n, ast.Assert)
        for line in range(n.lineno, (n.end_lineno or n.lineno) + 1)
    }


def _annotated(tree: ast.FunctionDef) -> set[str]:
    """The annotated names of a signature, as ``__annotations__`` has them."""
    args = tree.args
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    found = {a.arg for a in every if a is not None and a.annotation is not None}
    return found | ({"return"} if tree.returns is not None else set())


def other_text(pyfunc: Callable[..., Any]) -> KernelSyntaxError:
    """The error for a function whose file does not hold its text; it is read anew next time."""
    forget_text(pyfunc)
    return KernelSyntaxError(
        f"the file of '{pyfunc.__code__.co_name}' has changed since it was defined, "
        "or holds the text of other code",
        start_of(pyfunc),
        "run the definition again: a kernel is read when it is first needed; code that exec() runs "
        "needs a file name of its own, and the text that was compiled in linecache",
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
            tree = syntax_tree.parse(text, "", flags=flags)
            parts = [ast.Module([s], []) for s in tree.body] if by_statement else [tree]
            found = [compile(part, "", "exec", flags, dont_inherit=True) for part in parts]
    except (SyntaxError, ValueError, MemoryError):
        return ()
    # It grows while it is read.
    for code in found:
        found += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


def _is_same(first: CodeType, second: CodeType) -> bool:
    """Whether two code objects do the same at the same places."""
    # Python may have been told to keep lines only, here or where it compiled the file.
    has_columns = all(any(p[2] is not None for p in c.co_positions()) for c in (first, second))
    return _structure(first, has_columns) == _structure(second, has_columns)


def _structure(code: CodeType, has_columns: bool) -> tuple[object, ...]:
    """What ``code`` does, and where."""
    consts = [
        _structure(c, has_columns) if isinstance(c, CodeType) else marshal.dumps(c, 2)
        for c in code.co_consts
    ]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    places = [place if has_columns else place[0] for place in code.co_positions()]
    return code.co_code, tuple(consts), names, counts, code.co_flags, places


def _operations(code: CodeType, asserts: set[int]) -> set[object]:
    """Which values the operations of ``code`` have at which places, but on lines ``asserts``."""
    found: set[object] = {code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
    for operation in dis.get_instructions(code):
        place, value = operation.positions, operation.argval
        # Python returns None at the end of a function, which has no place of its own.
        if place is None or place.lineno in asserts or value is None:
            continue
        if isinstance(value, CodeType):
            found |= _operations(value, asserts)
        elif operation.opcode in _WITH_VALUE:
            found.add((place, operation.argrepr))
    return found


def start_of(pyfunc: Callable[..., Any]) -> SrcLoc:
    """The line on which ``pyfunc`` starts."""
    code = pyfunc.__code__
    return SrcLoc(code.co_filename, code.co_firstlineno, 0, _LONG_LINE)
