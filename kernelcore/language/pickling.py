"""Pickling of what is made of Python functions: by name, else by source and captured values."""

from __future__ import annotations
import __future__

import ast
import linecache
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any

from kernelcore.base.dataclass import dataclass
from kernelcore.base.digest import sha256
from kernelcore.base.errors import KernelError, KernelSyntaxError
from kernelcore.language import syntax_tree
from kernelcore.language.bound_names import MISSING
from kernelcore.language.dialect import Dialect, written_in
from kernelcore.language.source import Source, read_source

_FILE = "<pickled"
_FLAGS = __future__.annotations.compiler_flag


def global_name(found: object, pyfunc: Callable[..., Any]) -> str | None:
    """The name under which the module of ``pyfunc`` has ``found``; None if it does not."""
    value: Any = sys.modules.get(pyfunc.__module__)
    for part in pyfunc.__qualname__.split("."):
        value = getattr(value, part, None)
    return pyfunc.__qualname__ if value is found else None


def found(module: str, name: str) -> Any:
    """What a module has under ``name``."""
    value: Any = import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def reduced(
    value: object, pyfunc: Callable[..., Any], by_source: Callable[[], tuple[Any, ...]]
) -> tuple[Any, ...]:
    """What pickles ``value``, made of ``pyfunc``: its name, else what ``by_source`` gives.

    The main program of the process that reads it may be another one: for that, what is defined
    there is pickled both ways.
    """
    name = global_name(value, pyfunc)
    if name is None:
        return by_source()
    if pyfunc.__module__ != "__main__":
        return found, (pyfunc.__module__, name)
    try:
        make, args, *rest = by_source()
        return _found_or_made, (name, FunctionText.of(pyfunc), make, args), *rest
    except KernelError:
        return found, (pyfunc.__module__, name)


def _found_or_made(
    name: str, text: FunctionText, make: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    """What the main program has under ``name``, if it is of the same text; else a new object."""
    value: Any = sys.modules.get("__main__")
    for part in name.split("."):
        value = getattr(value, part, None)
    pyfunc = getattr(value, "pyfunc", None) or getattr(value, "__wrapped__", None)
    if isinstance(pyfunc, FunctionType):
        try:
            if FunctionText.of(pyfunc) == text:
                return value
        except KernelError:
            pass  # Its source is gone.
    return make(*args)


@dataclass(frozen=True, slots=True)
class FunctionText:
    """A Python function without the values that its names stand for.

    Attributes:
        name: Its name.
        module: The module that defines it.
        text: Its definition, without decorators.
        dialect: The dialect that it is written in.
    """

    name: str
    module: str
    text: str
    dialect: Dialect | None = None

    @staticmethod
    def of(pyfunc: Callable[..., Any]) -> FunctionText:
        """That of ``pyfunc``.

        Raises:
            KernelSyntaxError: Its source is not available, or it is a lambda.
        """
        source = read_source(pyfunc)
        if pyfunc.__code__.co_name == "<lambda>":
            raise KernelSyntaxError(
                f"'{pyfunc.__name__}' has no definition of its own, so it cannot be pickled",
                remedy="define a function with def",
            )
        first = source.tree.lineno + source.line_offset - pyfunc.__code__.co_firstlineno
        lines = source.text.splitlines(keepends=True)[first:]
        text = textwrap.dedent("".join(lines))
        return FunctionText(pyfunc.__name__, pyfunc.__module__, text, source.dialect)

    def function(self) -> FunctionType:
        """A function of this text, whose names stand for nothing yet."""
        digest = sha256(self.text.encode(errors="surrogatepass")).hexdigest()
        file = f"{_FILE} {self.name} {digest[:16]}>"
        lines = self.text.splitlines(keepends=True)
        # The frontend reads the text again when the function is compiled.
        linecache.cache[file] = (len(self.text), None, lines, file)
        module = compile(self.text, file, "exec", flags=_FLAGS, dont_inherit=True)
        code = next(
            c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == self.name
        )
        made = FunctionType(code, {"__name__": self.module}, self.name)
        made.__module__ = self.module
        # Annotations of modules that evaluate them at once are text as well.
        tree = syntax_tree.parse(self.text).body[0]
        assert isinstance(tree, ast.FunctionDef)
        args = tree.args
        made.__annotations__ = {
            a.arg: ast.unparse(a.annotation)
            for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)
            if a.annotation is not None
        }
        if tree.returns is not None:
            made.__annotations__["return"] = ast.unparse(tree.returns)
        return made if self.dialect is None else written_in(made, self.dialect)


def captured(pyfunc: Callable[..., Any]) -> dict[str, Any]:
    """What ``restore`` needs besides the text: defaults, and what the names around it stand for."""
    source = read_source(pyfunc)
    values = {n: v for n in _free_names(source) if (v := source.find(n)) is not MISSING}
    modules = {n: v.__name__ for n, v in values.items() if isinstance(v, ModuleType)}
    own = {n: v for n, v in values.items() if n not in modules}
    return {"values": own, "modules": modules, "defaults": pyfunc.__defaults__}


def restore(pyfunc: Callable[..., Any], state: dict[str, Any]) -> None:
    """Give ``pyfunc`` what ``captured`` found, if ``FunctionText.function`` made it."""
    if not pyfunc.__code__.co_filename.startswith(_FILE):
        return
    names = {name: import_module(module) for name, module in state["modules"].items()}
    pyfunc.__globals__.update({**state["values"], **names})
    pyfunc.__defaults__ = state["defaults"]  # pyright: ignore[reportFunctionMemberAccess]


def _free_names(source: Source) -> set[str]:
    """Names that the definition reads; of built-in functions Python has its own."""
    nodes = [n for n in ast.walk(source.tree) if isinstance(n, ast.Name)]
    own = {n.id for n in nodes if isinstance(n.ctx, ast.Store)}
    decorators = {n for d in source.tree.decorator_list for n in ast.walk(d)}
    texts = (n for n in ast.walk(source.tree) if isinstance(n, ast.Constant))
    names = {n.id for n in nodes if n not in decorators}
    for constant in texts:
        # An annotation may be text.
        if isinstance(constant.value, str):
            names |= _names_of_text(constant.value)
    outer = {*source.pyfunc.__globals__, *source.pyfunc.__code__.co_freevars}
    return (names & outer) - own


def _names_of_text(text: str) -> set[str]:
    try:
        tree = syntax_tree.parse_expression(text)
    except (SyntaxError, ValueError):
        return set()
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
