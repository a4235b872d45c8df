"""What of a program for Warp runs here, what differs in results, and what is missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelError
from kernelcore.compat.warp.port.differences import Difference, difference_of
from kernelcore.compat.warp.port.inference import Scope, assign, bindings
from kernelcore.compat.warp.port.names import problem_of, unknown_keywords, value_of
from kernelcore.compat.warp.port.source_file import SourceFile, read_file
from kernelcore.language.types import bfloat16

_DECORATORS = {"kernel", "func", "func_grad", "func_replay"}
_OPERATORS: dict[type[ast.operator], str] = {ast.Div: "/", ast.Mod: "%"}
# Functions of Python that a kernel calls by the same names.
_BUILTINS = {"min", "max", "round"}


class Verdict(Enum):
    """What becomes of a line."""

    RUNS = "runs"
    DIFFERS = "differs"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """A use of Warp that does not simply run.

    Attributes:
        line: Where it is.
        name: The operation or the name.
        text: What differs, or why it is missing, and the way around.
        is_missing: Whether it is missing, as opposed to different.
    """

    line: int
    name: str
    text: str
    is_missing: bool

    @property
    def verdict(self) -> Verdict:
        return Verdict.MISSING if self.is_missing else Verdict.DIFFERS


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found in a file.

    Attributes:
        path: The file.
        text: Its source.
        findings: What does not simply run, by line.
        runs: The other lines that use Warp.
        kernels: How many kernels and functions of kernels there are.
    """

    path: Path
    text: str
    findings: tuple[Finding, ...]
    runs: tuple[int, ...]
    kernels: int

    @property
    def missing(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.is_missing)


def read_program(path: Path) -> list[FileReport]:
    """Read a file, or all of a folder, without running it.

    Args:
        path: A file of Python, or a folder of such.

    Returns:
        A report per file that uses Warp.

    Raises:
        KernelError: There is no such file, or it is not Python.

    Example:
        >>> for report in read_program(Path("simulation")):
        ...     print(report.path, report.findings)
    """
    if not path.exists():
        raise KernelError(f"expected a file or a folder, found '{path}', which does not exist")
    paths = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    program: dict[str, SourceFile] = {}
    files: list[SourceFile] = []
    for one in paths:
        try:
            files.append(read_file(one, program))
        except (SyntaxError, UnicodeDecodeError) as error:
            raise KernelError(f"expected Python, found in {one}: {error}") from None
    return [_report(f) for f in files if f.imports.imported]


def _report(file: SourceFile) -> FileReport:
    uses = [(line, path) for line, path in file.imports.imported if path]
    lines = {line for line, _ in file.imports.imported}
    for node in _outermost(file.tree, file):
        path = file.path_of(node)
        if path:
            uses.append((node.end_lineno or node.lineno, path))
    findings = {_missing(line, path) for line, path in uses} - {None}
    found = {f for f in findings if f is not None}
    functions = [n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef)]
    kernels = [f for f in functions if _is_kernel(f, file)]
    for kernel in kernels:
        found |= set(_KernelReader(file, kernel).findings())
    found |= set(_calls(file))
    lines |= {line for line, _ in uses}
    runs = lines - {f.line for f in found}
    in_order = sorted(found, key=lambda f: (f.line, f.name, f.text))
    return FileReport(file.path, file.text, tuple(in_order), tuple(sorted(runs)), len(kernels))


def _outermost(tree: ast.AST, file: SourceFile) -> Iterator[ast.expr]:
    """The names with attributes in ``tree``, whole."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Attribute | ast.Name) and file.path_of(node) is not None:
            yield node
        else:
            yield from _outermost(node, file)


def _missing(line: int, path: str) -> Finding | None:
    problem = problem_of(path)
    return None if problem is None else Finding(line, path, problem, True)


def _is_kernel(function: ast.FunctionDef, file: SourceFile) -> bool:
    names = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return any(file.path_of(n) in _DECORATORS for n in names)


def _calls(file: SourceFile) -> Iterator[Finding]:
    """What calls of Warp's functions on the host give that is not taken, or taken otherwise."""
    for node in ast.walk(file.tree):
        path = file.path_of(node.func) if isinstance(node, ast.Call) else None
        if not path or not isinstance(node, ast.Call) or problem_of(path) is not None:
            continue
        keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
        for name in unknown_keywords(path, list(keywords)):
            text = f"{path} has no parameter '{name}' here; leave it out"
            yield Finding(node.lineno, f"{path}({name}=)", text, True)
        difference = difference_of(path.rpartition(".")[2])
        if difference is None:
            continue
        if path == "array":
            dtype = keywords.get("dtype", node.args[1] if len(node.args) > 1 else None)
            inner = None if dtype is None else file.path_of(dtype)
            has_data = bool(node.args) or "data" in keywords
            if has_data and inner is not None and value_of(inner) == bfloat16:
                yield _different(node.lineno, "array", difference, None)
        elif path.startswith("jax_experimental") and not {"num_outputs", "ffi"} & {
            *keywords,
            *path.split("."),
        }:
            yield _different(node.lineno, "jax_kernel", difference, True)


def _different(line: int, name: str, of: Difference, is_certain: bool | None) -> Finding:
    operands = of.operands if is_certain else f"if {of.operands}"
    return Finding(line, name, f"{operands}: kernelcore gives {of.plain}, Warp {of.warp}", False)


def _has_negative_literal(index: ast.expr) -> bool:
    """Whether ``index`` is a negative literal, or a tuple with one."""
    if isinstance(index, ast.Tuple):
        return any(map(_has_negative_literal, index.elts))
    if not isinstance(index, ast.UnaryOp) or not isinstance(index.op, ast.USub):
        return False
    return isinstance(index.operand, ast.Constant)


class _KernelReader:
    """Reads one kernel or function of kernels for operations whose results differ."""

    def __init__(self, file: SourceFile, function: ast.FunctionDef) -> None:
        types = {p.arg: file.type_named(p.annotation) for p in function.args.args}
        self._file = file
        self._function = function
        self._scope = Scope(file, types, bindings(function))

    def findings(self) -> Iterator[Finding]:
        yield from self._block(self._function.body)

    def _block(self, body: Sequence[ast.stmt]) -> Iterator[Finding]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from self._expression(child)
            if isinstance(node, ast.AugAssign):
                yield from self._operator(node.op, node.target, node.value)
            assign(node, self._scope)
            if isinstance(node, ast.If | ast.For | ast.While):
                yield from self._block(node.body)
                yield from self._block(node.orelse)

    def _expression(self, node: ast.expr) -> Iterator[Finding]:
        if isinstance(node, ast.Call):
            path = self._file.path_of(node.func)
            if path == "static":
                # Python computes it.
                return
            yield from self._call(node, path)
        elif isinstance(node, ast.BinOp):
            yield from self._operator(node.op, node.left, node.right)
        elif isinstance(node, ast.Subscript) and _has_negative_literal(node.slice):
            yield from self._compared("[]", "[]", node.lineno, [node.value])
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from self._expression(child)
            elif isinstance(child, ast.keyword):
                yield from self._expression(child.value)

    def _operator(self, op: ast.operator, left: ast.expr, right: ast.expr) -> Iterator[Finding]:
        name = _OPERATORS.get(type(op))
        if name is not None:
            yield from self._compared(name, name, right.lineno, [left, right])

    def _call(self, node: ast.Call, path: str | None) -> Iterator[Finding]:
        name = path
        if path is None and isinstance(node.func, ast.Name) and node.func.id in _BUILTINS:
            is_own = node.func.id in {*self._file.functions, *self._scope.types}
            name = None if is_own else node.func.id
        if name is not None and name != "array":  # of an address in a kernel, never of data
            yield from self._compared(name, name, node.lineno, node.args)

    def _compared(
        self, operation: str, name: str, line: int, nodes: Sequence[ast.expr]
    ) -> Iterator[Finding]:
        """The finding that an operation of the operands ``nodes`` gives other results."""
        difference = difference_of(operation)
        if difference is None:
            return
        is_different = difference.condition([self._scope.operand(n) for n in nodes])
        if is_different is not False:
            yield _different(line, name, difference, is_different)
