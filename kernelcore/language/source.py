"""Source: the syntax tree of a Python function, where its nodes are, and what its names mean."""

from __future__ import annotations

import ast
import builtins
import inspect
import tokenize
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, cast

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelNameError, KernelSyntaxError, SrcLoc, suggestion
from kernelcore.language import bound_names, syntax_tree
from kernelcore.language.bound_names import MISSING
from kernelcore.language.dialect import Dialect, dialect_of
from kernelcore.language.source_check import (
    FileText,
    forget_text,
    note_text,
    other_text,
    start_of,
    text_of,
)

# Under this name the globals of a function in a kernel have the source around it.
HOME = "$home"
_LONG_LINE = 1 << 20
# Decorators and the brackets of a signature; beyond, Python's own search is not slower.
_MOST_ENDS = 8
# Fields of nodes with names, contexts and operators.
_WITHOUT_NODES = frozenset({"arg", "attr", "ctx", "id", "name", "op", "ops"})
# What an expression that a user wrote may raise when Python evaluates it.
EXPRESSION_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A Python function as text.

    Attributes:
        pyfunc: The function.
        tree: Its definition.
        line_offset: What to add to the lines of ``tree`` to get those of the file.
        file_text: The text of the file.
        text: The lines of its definition; empty where ``tree`` was made of another one.
    """

    pyfunc: Callable[..., Any]
    tree: ast.FunctionDef
    line_offset: int
    file_text: FileText = field(repr=False)
    text: str = field(default="", repr=False)
    # What was asked for, since most is several times.
    _spans: dict[ast.AST, SrcLoc | None] = field(
        default_factory=lambda: dict[ast.AST, SrcLoc | None]()
    )
    _own_nodes: list[ast.AST] = field(default_factory=lambda: list[ast.AST]())

    @property
    def file(self) -> str:
        """The file that defines it."""
        return self.pyfunc.__code__.co_filename

    @property
    def dialect(self) -> Dialect | None:
        """The dialect that it is written in; None for the kernel language."""
        return dialect_of(self.pyfunc)

    @property
    def is_current(self) -> bool:
        """Whether its text is known to be that of the code that the function has."""
        return not self.text or note_text(self.pyfunc) is self.file_text

    def loc(self, node: ast.AST) -> SrcLoc | None:
        """The span of ``node``, cut at the end of its first line."""
        if node not in self._spans:
            self._spans[node] = self._span(node)
        return self._spans[node]

    def _span(self, node: ast.AST) -> SrcLoc | None:
        line: int | None = getattr(node, "lineno", None)
        if line is None:
            return None
        first: int = getattr(node, "col_offset", 0)
        last: int = getattr(node, "end_col_offset", _LONG_LINE)
        if getattr(node, "end_lineno", line) != line:
            last = _LONG_LINE
        line += self.line_offset
        text = self.file_text.lines[line - 1].rstrip("\n")
        if not text.isascii():
            # ast counts UTF-8 bytes; a SrcLoc counts characters.
            encoded = text.encode()
            first, last = (len(encoded[:c].decode(errors="ignore")) for c in (first, last))
        return SrcLoc(self.file, line, first, last)

    def own_nodes(self) -> Sequence[ast.AST]:
        """The ``own_nodes`` of its body."""
        if not self._own_nodes:
            self._own_nodes.extend(own_nodes(self.tree.body))
        return self._own_nodes

    def name_loc(self) -> SrcLoc:
        """The span of the name after ``def``."""
        line = self.tree.lineno + self.line_offset
        text = self.file_text.lines[line - 1]
        first = max(text.find(self.tree.name, self.tree.col_offset + len("def")), 0)
        return SrcLoc(self.file, line, first, first + len(self.tree.name))

    def resolve(self, name: str, loc: SrcLoc | None) -> object:
        """The Python object that ``name`` stands for around the function.

        Raises:
            KernelNameError: It stands for none.
        """
        found = self.find(name)
        if found is not MISSING:
            return found
        raise KernelNameError(f"name '{name}' is not defined", loc, self._suggestion(name))

    def find(self, name: str) -> object:
        """The Python object that ``name`` stands for around the function, or ``MISSING``.

        ``bound_names`` is told, but of what is Python's own.
        """
        cell = bound_names.cell_of(self.pyfunc, name)
        if cell is not None:
            found = _closure(self.pyfunc).get(name, MISSING)
            found = bound_names.note(cell, "cell_contents", found)
            if found is not MISSING:
                return found
        names = self.pyfunc.__globals__
        if HOME in names and name != self.pyfunc.__name__:
            return names[HOME].find(name)
        if name in names or not hasattr(builtins, name):
            return bound_names.note(names, name, names.get(name, MISSING))
        return vars(builtins)[name]

    def namespace(self) -> dict[str, Any]:
        """All names around the function, without Python's own."""
        return {**self.pyfunc.__globals__, **_closure(self.pyfunc)}

    def _suggestion(self, name: str) -> str | None:
        nodes = ast.walk(self.tree)
        local = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        params = [a.arg for a in self.tree.args.args]
        known = [*local, *params, *self.namespace()]
        return suggestion(name, known, "assign it, or pass it as a parameter")


def own_nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of ``body`` in order, without the bodies of functions defined there.

    What names are used for, and operators, are left out: half of all nodes.
    """
    pending: list[object] = list(reversed(body))
    while pending:
        node = pending.pop()
        if not isinstance(node, ast.AST):
            continue
        yield node
        for name in _inner_fields(node.__class__):
            value: object = getattr(node, name, None)
            if isinstance(value, list):
                pending.extend(reversed(cast("list[object]", value)))
            elif value is not None:
                pending.append(value)


@cache
def _inner_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields in which ``own_nodes`` looks for nodes, the last one first."""
    if issubclass(kind, ast.FunctionDef | ast.Lambda):
        return ()
    return tuple(name for name in reversed(kind._fields) if name not in _WITHOUT_NODES)


def read_source(pyfunc: Callable[..., Any]) -> Source:
    """The source of ``pyfunc``, whose body ``check_text`` compares with its code.

    Raises:
        KernelSyntaxError: There is none, or it is no plain function definition.
    """
    if not inspect.isfunction(pyfunc):
        raise KernelSyntaxError(
            f"expected a function that is defined with def, found {pyfunc!r}",
            remedy="put @kernel or @func directly above def",
        )
    if hasattr(pyfunc, "__wrapped__"):
        raise KernelSyntaxError(
            f"'{pyfunc.__name__}' is wrapped by a decorator, which cannot be compiled",
            start_of(pyfunc),
            remedy="decorate the function itself: put @kernel or @func directly above def",
        )
    try:
        file_text = text_of(pyfunc)
        lines = [line for _, _, line in pyfunc.__code__.co_lines() if line]
        first = pyfunc.__code__.co_firstlineno
        body, offset, text = _definition(file_text, first, max(lines, default=first))
    except (OSError, TypeError):
        forget_text(pyfunc)
        raise KernelSyntaxError(
            f"the source of '{pyfunc.__name__}' is not available",
            remedy="define it with def in a file or a notebook cell, or give its text: "
            "kc.kernel(source=...)",
        ) from None
    except (ValueError, MemoryError, RecursionError) as error:
        forget_text(pyfunc)
        raise KernelSyntaxError(
            f"Python cannot parse '{pyfunc.__name__}': {error or type(error).__name__}",
            start_of(pyfunc),
            "remove NUL characters, and assign parts of deeply nested expressions to variables",
        ) from None
    if pyfunc.__code__.co_name == "<lambda>":
        return _lambda(pyfunc, file_text)
    if isinstance(body, ast.AsyncFunctionDef):
        raise KernelSyntaxError(
            "only functions defined with def can be compiled",
            start_of(pyfunc),
            "define it with def",
        )
    code = pyfunc.__code__
    if not (isinstance(body, ast.FunctionDef) and body.name == code.co_name):
        raise other_text(pyfunc)
    args = body.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # Python puts the name of the class before private names.
    if len(names) != len(own) or not all(map(str.endswith, own, names)):
        raise other_text(pyfunc)
    return Source(pyfunc, body, offset, file_text, text)


def name_loc(pyfunc: Callable[..., Any]) -> SrcLoc | None:
    """Where the name of ``pyfunc`` is defined; None where its file has it no more."""
    try:
        return read_source(pyfunc).name_loc()
    except KernelSyntaxError:
        return None


# A kernel's parameters and its body are read one after the other; finding the end takes long.
@lru_cache(maxsize=1)
def _definition(file_text: FileText, first: int, last: int) -> tuple[ast.stmt | None, int, str]:
    lines = file_text.lines[first - 1 :]
    if not lines:
        raise OSError("the file has become shorter")
    found, offset = parse_definition(lines, first, last - first + 1)
    end = found.end_lineno if found is not None else None
    text = lines if end is None else lines[: end + offset - first + 1]
    return found, offset, "".join(text)


def parse_definition(
    lines: Sequence[str], first: int, least: int = 1
) -> tuple[ast.stmt | None, int]:
    """The definition that ``lines`` start with, and the line number before its first line.

    None where it is no complete statement. The definition ends before a line that is indented no
    further, unless that lies in brackets or in a string: then what is before it does not parse.
    Ends before line ``least`` are not tried.
    """
    indent = _indent(lines[0])
    tried = 0
    for end in range(least, len(lines) + 1):
        following = lines[end] if end < len(lines) else "end"
        text = following.strip()
        if not text or text.startswith("#") or (end < len(lines) and _indent(following) > indent):
            continue
        found = _parse(lines[:end], first)
        if found[0] is not None:
            return found
        tried += 1
        if tried == _MOST_ENDS:
            break
    try:
        return _parse(inspect.getblock(lines), first)
    except (SyntaxError, tokenize.TokenError):
        # The file has changed, or a lambda's line starts within a string.
        return None, first - 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _lambda(pyfunc: Callable[..., Any], file_text: FileText) -> Source:
    """A lambda as the definition of a function, found by where its code is.

    Raises:
        KernelSyntaxError: It is not there.
    """
    first = pyfunc.__code__.co_firstlineno
    places = {p for p in pyfunc.__code__.co_positions() if None not in p}
    try:
        module = syntax_tree.parse(file_text.whole)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise other_text(pyfunc) from None
    for node in ast.walk(module):
        if not isinstance(node, ast.Lambda) or node.lineno != first:
            continue
        body = node.body
        if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in places:
            result = ast.copy_location(ast.Return(body), body)
            function = ast.FunctionDef("lambda_", node.args, [result], [])
            ast.fix_missing_locations(ast.copy_location(function, node))
            text = "".join(file_text.lines[first - 1 : node.end_lineno])
            return Source(pyfunc, function, 0, file_text, text)
    if places:
        raise other_text(pyfunc)
    raise KernelSyntaxError(
        "the source of a lambda is not available, since Python keeps no columns of code",
        start_of(pyfunc),
        "define a function with def",
    )


def _parse(lines: Sequence[str], first: int) -> tuple[ast.stmt | None, int]:
    """The first statement of ``lines``, and the line number before its first line."""
    text = "".join(lines)
    # To Python a form feed is no indentation.
    is_indented = lines[0].lstrip("\f")[:1].isspace()
    try:
        # A block keeps the columns of an indented definition as they are.
        module = syntax_tree.parse("if 1:\n" + text if is_indented else text)
    except SyntaxError:
        return None, first - 1
    stmt = module.body[0]
    if is_indented and isinstance(stmt, ast.If):
        return stmt.body[0], first - 2
    return stmt, first - 1


def _closure(pyfunc: Callable[..., Any]) -> dict[str, object]:
    names: dict[str, object] = {}
    for name, cell in zip(pyfunc.__code__.co_freevars, pyfunc.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue  # a cell that is not filled yet is an unknown name
    return names
