"""Types of a Python file: what annotations, constants and structs in it stand for."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelError
from kernelcore.builtins.declare import Builtin
from kernelcore.compat.warp.port.imports import Imports, read_imports
from kernelcore.compat.warp.port.names import value_of
from kernelcore.compat.warp.port.values import Elements, Fields, ValueType, type_of_value
from kernelcore.language.types import (
    ArrayOf,
    Dense,
    Scalar,
    boolean,
    float32,
    int32,
    type_of,
)

_ARRAYS = re.compile(r"(?:indexed)?array(\d)?d?")
# Functions that make types, and the one that says that a value is constant.
_MAKERS = {"constant", "matrix", "quaternion", "transformation", "vector"}
_PYTHON: Mapping[str, Scalar] = {"bool": boolean, "int": int32, "float": float32}


@dataclass(slots=True, eq=False)
class SourceFile:
    """A file of a program.

    Attributes:
        path: Where it is.
        text: The source.
        tree: The source, parsed.
        imports: What its imports bind.
        program: The files of the program by their names, this one included.
        functions: Its functions by name, and those in functions.
        classes: Its classes by name.
        values: What its global names are set to.
    """

    path: Path
    text: str
    tree: ast.Module
    imports: Imports
    program: dict[str, SourceFile]
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict[str, ast.FunctionDef])
    classes: dict[str, ast.ClassDef] = field(default_factory=dict[str, ast.ClassDef])
    values: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    # Names whose value is being looked up: one that is defined by itself has no type.
    _pending: set[str] = field(default_factory=set[str])

    def path_of(self, node: ast.expr) -> str | None:
        """The path in Warp that ``node``, a name with attributes, stands for; None for others."""
        if isinstance(node, ast.Attribute):
            base = self.path_of(node.value)
            return None if base is None else f"{base}.{node.attr}".lstrip(".")
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.imports.warp:
            return self.imports.warp[node.id]
        is_own = node.id in self.functions or node.id in self.values or node.id in self.classes
        if self.imports.takes_all and not is_own and value_of(node.id) is not None:
            return node.id
        return None

    def type_named(self, node: ast.expr | None) -> ValueType:
        """The type of values that the annotation ``node`` stands for."""
        match node:
            case ast.Constant(value=str() as text):
                try:
                    return self.type_named(ast.parse(text, mode="eval").body)
                except SyntaxError:
                    return None
            case ast.Call(func=function):
                return self._called(node, function)
            case ast.Subscript(value=base, slice=index):
                given = index.elts if isinstance(index, ast.Tuple) else [index]
                return self._array(base, given[0], None)
            case ast.Name() | ast.Attribute():
                found = self.path_of(node)
                if found is not None:
                    return _as_type(value_of(found))
                return self._own_type(node)
            case _:
                return None

    def _called(self, node: ast.Call, function: ast.expr) -> ValueType:
        """The type that a call makes: an array's, or a vector's of a length of one's own."""
        keywords = {k.arg: k.value for k in node.keywords}
        array = self._array(function, keywords.get("dtype"), keywords.get("ndim"))
        if array is not None:
            return array
        path = self.path_of(function)
        if path is None or not _is_pure(path):
            return None
        try:
            args = [self._constant(a) for a in node.args]
            made = value_of(path)(*args, **{str(k): self._constant(v) for k, v in keywords.items()})
        except (KernelError, TypeError, ValueError):
            return None
        return _as_type(made)

    def _array(
        self, function: ast.expr, dtype: ast.expr | None, ndim: ast.expr | None
    ) -> ValueType:
        path = self.path_of(function)
        found = None if path is None else _ARRAYS.fullmatch(path)
        if found is None:
            return None
        count = ndim.value if isinstance(ndim, ast.Constant) else found[1] or 1
        return Elements(self.type_named(dtype), int(str(count)))

    def _own_type(self, node: ast.expr) -> ValueType:
        home, name = self.home_of(node)
        if home is None:
            return None
        if name in home.classes:
            fields = [f for f in home.classes[name].body if isinstance(f, ast.AnnAssign)]
            return Fields(
                {
                    f.target.id: home.type_named(f.annotation)
                    for f in fields
                    if isinstance(f.target, ast.Name)
                }
            )
        if name in home.values and name not in home._pending:
            home._pending.add(name)
            try:
                return home.type_named(home.values[name])
            finally:
                home._pending.discard(name)
        return _PYTHON.get(name) if name not in home.functions else None

    def home_of(self, node: ast.expr) -> tuple[SourceFile | None, str]:
        """The file of the program that defines what ``node`` names, and the name there."""
        if isinstance(node, ast.Name):
            module, name = self.imports.others.get(node.id, (None, node.id))
            if module is None:
                return self, name
            return (self.program.get(module), name) if name else (None, "")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = self.imports.others.get(node.value.id, (None, ""))
            # ``import common`` and ``from . import common`` name a module.
            return self.program.get(name or module or ""), node.attr
        return None, ""

    def constant_value(self, name: str) -> Any:
        """The value of the module's constant ``name``; None if it is none."""
        if name not in self.values:
            return None
        try:
            return self._constant(self.values[name])
        except (KernelError, TypeError, ValueError):
            return None

    def constant_type(self, node: ast.expr) -> ValueType:
        """The type of the module's constant that ``node`` names."""
        home, name = self.home_of(node)
        return None if home is None else type_of_value(home.constant_value(name))

    def _constant(self, node: ast.expr) -> Any:
        """The value of ``node``, made of literals, types and calls of Warp.

        Raises:
            ValueError: It is none.
        """
        path = self.path_of(node)
        if path is not None:
            return value_of(path)
        match node:
            case ast.Call(func=function) if _is_pure(self.path_of(function)):
                made = self._constant(function)
                return made(
                    *[self._constant(a) for a in node.args],
                    **{str(k.arg): self._constant(k.value) for k in node.keywords},
                )
            case ast.Name(id=name) if name in _PYTHON:
                return _PYTHON[name]
            case ast.Name(id=name) if name in self.values and name not in self._pending:
                self._pending.add(name)
                try:
                    return self._constant(self.values[name])
                finally:
                    self._pending.discard(name)
            case ast.Tuple(elts=items):
                return tuple(self._constant(i) for i in items)
            case _:
                return ast.literal_eval(node)


def _is_pure(path: str | None) -> bool:
    """Whether calls of ``path`` make types and values, and do nothing else."""
    value = None if path is None else value_of(path)
    makes_type = (path or "").rpartition(".")[2] in _MAKERS
    return makes_type or isinstance(value, Scalar | Builtin) or isinstance(type_of(value), Dense)


def _as_type(value: Any) -> ValueType:
    found = type_of(value)
    if isinstance(found, ArrayOf):
        element = found.element
        return Elements(element if isinstance(element, Scalar | Dense) else None, found.ndim)
    return found if isinstance(found, Scalar | Dense) else None


def read_file(path: Path, program: dict[str, SourceFile]) -> SourceFile:
    """Parse a file, and enter it into ``program``.

    Raises:
        SyntaxError: It is not Python.
    """
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    file = SourceFile(path, text, tree, read_imports(tree), program)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            file.classes[node.name] = node
        elif isinstance(node, ast.FunctionDef):
            file.functions[node.name] = node
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    file.values[target.id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            file.values[node.target.id] = node.value
    program[path.stem] = file
    return file
