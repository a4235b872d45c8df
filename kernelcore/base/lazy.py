"""Lazy imports: modules and public names are loaded when they are first used."""

from __future__ import annotations

import builtins
import gc
import importlib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from kernelcore.base.threads import Unforked

Names = Callable[[], Mapping[str, Any]]


class Deferred:
    """A module of kernelcore that is imported when something in it is first needed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        # Cache the attribute: ``__getattr__`` runs once per name.
        found = getattr(_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


class Exporting(ModuleType):
    """A package whose public names are imported when they are first needed.

    A submodule of the same name as a function does not hide the function. Names are
    imported by ``__getattr__`` of the package; on the class it would slow every access.

    Attributes:
        __homes__: The module that each name is imported from.
        __others__: Gives the names that are in none of them.
    """

    __homes__: Mapping[str, str]
    __others__: Names

    def __setattr__(self, name: str, value: object) -> None:
        is_hidden = isinstance(value, ModuleType) and name in self.__homes__
        if not is_hidden:
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self.__name__,)

    def __dir__(self) -> Iterable[str]:
        own = {k for k, v in self.__dict__.items() if k in _OWN or _is_public(k, v)}
        return sorted({*own, *self.__homes__, *self.__others__()})


# Names of a package that users read beside the public ones.
_OWN = frozenset({"__doc__", "__file__", "__name__", "__package__", "__path__", "__version__"})


def _is_public(name: str, value: object) -> bool:
    """Whether users need a name of a package: submodules are found by importing them."""
    return not name.startswith("_") and (not isinstance(value, ModuleType) or name == "types")


def export(
    package: ModuleType,
    known: Mapping[str, str],
    others: Names,
    unstarred: Iterable[str],
    packages: Iterable[str] = (),
) -> None:
    """Make ``package`` an ``Exporting`` of names by module, and of what ``others`` gives.

    ``packages`` are those inside of it that programs reach without an import of their own.
    ``from package import *`` leaves out the names ``unstarred``, modules, and those that would
    hide Python's built-in functions.
    """

    def getter(name: str) -> Any:
        home = known.get(name)
        if name in packages:
            found = _module(f"{package.__name__}.{name}")
        elif home is not None:
            found = getattr(_module(home), name)
        elif name == "__all__":
            hidden = {*dir(builtins), *unstarred, "types"}
            found = [n for n in dir(package) if n not in hidden and not n.startswith("_")]
        elif name.startswith("_") or name not in (rest := others()):
            raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")
        else:
            found = rest[name]
        package.__dict__[name] = found
        return found

    package.__class__ = Exporting
    package.__dict__.update(__homes__=known, __others__=others, __getattr__=getter)


def _module(name: str) -> ModuleType:
    # A child that is forked while another thread imports a module could never import it.
    with Unforked(), _uncollected():
        return importlib.import_module(name)


@contextmanager
def _uncollected() -> Generator[None]:
    """Without garbage collection: what modules make lives on.

    One collection takes 60 ms in a process that has imported JAX.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def homes(rows: Mapping[str, str]) -> dict[str, str]:
    """The home of every name, of names by module."""
    return {name: module for module, names in rows.items() for name in names.split()}
