"""Which names of a Python file stand for something of Warp, and the same file with our imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernelcore.base.dataclass import dataclass, field
from kernelcore.compat.warp.port.names import is_module

HOME = "kernelcore.compat.warp"


@dataclass(frozen=True, slots=True)
class Imports:
    """What the imports of a file bind.

    Attributes:
        warp: Names that stand for Warp (the empty path) or something in it (``utils.map``).
        others: Names from other files: the last part of the module, and the name there.
        imported: The paths that import statements name, with their lines.
        takes_all: Whether ``from warp import *`` binds every name of Warp.
    """

    warp: Mapping[str, str]
    others: Mapping[str, tuple[str, str]]
    imported: tuple[tuple[int, str], ...]
    takes_all: bool


@dataclass(slots=True)
class _Reading:
    warp: dict[str, str] = field(default_factory=dict[str, str])
    others: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    imported: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    takes_all: bool = False


def read_imports(tree: ast.Module) -> Imports:
    """The imports of a file, those in functions, too."""
    found = _Reading()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                _read_import(alias, found)
        elif isinstance(node, ast.ImportFrom):
            _read_from(node, found)
    return Imports(found.warp, found.others, tuple(found.imported), found.takes_all)


def _read_import(alias: ast.alias, found: _Reading) -> None:
    path = _path_in_warp(alias.name)
    if path is not None:
        found.imported.append((alias.lineno, path))
        # ``import warp.utils`` binds ``warp``, unless it says ``as``.
        found.warp[alias.asname or "warp"] = path if alias.asname else ""
    elif alias.asname or "." not in alias.name:
        module = alias.name.rpartition(".")[2]
        found.others[alias.asname or alias.name] = (module, "")


def _read_from(node: ast.ImportFrom, found: _Reading) -> None:
    path = _path_in_warp(node.module or "") if node.level == 0 else None
    for alias in node.names:
        name = alias.asname or alias.name
        if path is None:
            module = (node.module or alias.name).rpartition(".")[2]
            found.others[name] = (module, alias.name if node.module else "")
        elif alias.name == "*":
            found.takes_all = found.takes_all or not path
            found.imported.append((alias.lineno, path))
        else:
            found.warp[name] = f"{path}.{alias.name}".lstrip(".")
            found.imported.append((alias.lineno, found.warp[name]))


def _path_in_warp(module: str) -> str | None:
    """The path of a module below ``warp``; None for other modules."""
    top, _, rest = module.partition(".")
    return rest if top == "warp" else None


def with_own_imports(source: str) -> str:
    """``source`` with imports of ``kernelcore.compat.warp`` in the place of those of ``warp``.

    Imports of modules that kernelcore lacks stay.

    Example:
        >>> with_own_imports("import warp as wp")
        'import kernelcore.compat.warp as wp'
    """
    lines = source.encode().splitlines(keepends=True)
    # From the last one, as replacing moves what follows.
    for line, start, end, text in sorted(_replacements(ast.parse(source)), reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[:start] + text.encode() + old[end:]
    return b"".join(lines).decode()


def _replacements(tree: ast.Module) -> Iterator[tuple[int, int, int, str]]:
    """The line, the first and the last byte of what to replace, and the text for it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = _path_in_warp(alias.name)
                if path is not None and is_module(path):
                    yield alias.lineno, alias.col_offset, _end(alias), _import_text(alias, path)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            path = _path_in_warp(node.module or "")
            if path is not None and is_module(path):
                start = node.col_offset + len("from ")
                yield node.lineno, start, start + len(node.module or ""), _joined(path)


def _end(alias: ast.alias) -> int:
    assert alias.end_col_offset is not None
    return alias.end_col_offset


def _import_text(alias: ast.alias, path: str) -> str:
    if alias.asname:
        return f"{_joined(path)} as {alias.asname}"
    # The program says ``warp.utils``: both the name and the module must be there.
    return f"{HOME} as warp" + (f", {_joined(path)}" if path else "")


def _joined(path: str) -> str:
    return f"{HOME}.{path}" if path else HOME
