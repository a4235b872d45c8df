"""The names around a kernel that its code was made with, what they stood for, and the settings.

Code is right while the names stand for the same objects. What objects contain, apart from the
attributes of modules and classes, is read once, as the values of constants are.
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import CellType, CodeType, FunctionType, MemberDescriptorType
from typing import Any, cast

import numpy as np

from kernelcore.base import native
from kernelcore.base.config import config, on_change

# The object that a name stands for that is not there.
MISSING: Any = object()
# A namespace, a name, and the object that it stands for there. A namespace is a dictionary, or an
# object with the name as an attribute that no code of a user computes: a cell or a class.
Row = tuple[object, str, object]


class _Reader(threading.local):
    """What the thread reads."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, str], Row] | None = None


_reader = _Reader()
# Python mode has no native calls.
on_change.append(lambda: native.forget_bound_names(may_hold=config.mode != "python"))
on_change[-1]()


class BoundNames:
    """Names and the objects that they stood for when code was made, and its settings.

    It is false if there are no names.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[int, str], Row] = {}
        # As ``config.followed``; None while no code is made.
        self.settings: tuple[bool, ...] | None = None
        self.checked = native.BoundNames([])

    def __bool__(self) -> bool:
        return bool(self.rows)

    @contextmanager
    def reading(self) -> Generator[None]:
        """Keep the names that this thread looks up inside, unless that fails.

        Names that are known stand for what they stood for, whatever has become of them.
        """
        outer, _reader.rows = _reader.rows, {**self.rows}
        try:
            yield
            self.settings = config.followed
            self._keep(_reader.rows)
        finally:
            _reader.rows = outer

    @staticmethod
    def of_function(function: Callable[..., Any]) -> BoundNames:
        """The globals and the variables of scopes around that a Python function reads."""
        made = BoundNames()
        with made.reading():
            codes = [function.__code__] if isinstance(function, FunctionType) else []
            for code in codes:
                codes += [c for c in code.co_consts if isinstance(c, CodeType)]
                for name in code.co_names:
                    if name in function.__globals__:
                        note(function.__globals__, name, function.__globals__[name])
            for cell in getattr(function, "__closure__", None) or ():
                note(cell, "cell_contents", _find(cell, "cell_contents"))
        return made

    def hold(self) -> bool:
        """Whether all names stand for the objects that they stood for, or for equal numbers.

        Where settings have changed, the names do not hold either.
        """
        if self.checked.hold():
            return True
        if self.settings not in (None, config.followed):
            return False
        rows = self.rows
        found = {key: (space, name, _find(space, name)) for key, (space, name, _) in rows.items()}
        if not all(_is_same(rows[key][2], now) for key, (_, _, now) in found.items()):
            return False
        self._keep(found)
        return True

    def _keep(self, rows: dict[tuple[int, str], Row]) -> None:
        self.rows = rows
        found = [
            (s, name, None if known is MISSING else (known,)) for s, name, known in rows.values()
        ]
        self.checked.replace(found)


def note(space: object, name: str, found: object) -> Any:
    """What ``name`` in ``space`` stands for in the code that is made: ``found``, if it is new.

    A name that changes while code is made has one meaning in all of it.
    """
    # All kernels read kernelcore; nobody replaces it, or the names in it.
    if _reader.rows is None or found is sys.modules["kernelcore"] or _is_own(space):
        return found
    return _reader.rows.setdefault((id(space), name), (space, name, found))[2]


def _is_own(space: object) -> bool:
    home = cast("dict[str, Any]", space).get("__name__") if isinstance(space, dict) else None
    return type(home) is str and home.partition(".")[0] == "kernelcore"


def note_attribute(owner: Any, name: str) -> Any:
    """What a module, an object or a class stores as its attribute ``name``, as ``note`` gives it.

    MISSING where it stores nothing, and where code computes what ``owner.name`` is.
    """
    home = type(owner).__module__
    if type(home) is not str or home.partition(".")[0] == "kernelcore":
        return MISSING
    is_class = isinstance(owner, type)
    classes = cast("tuple[type[Any], ...]", owner.__mro__ if is_class else type(owner).__mro__)
    kind = next((kind for kind in classes if name in vars(kind)), None)
    found = MISSING if kind is None else vars(kind)[name]
    if not is_class:
        if type(found) is MemberDescriptorType:
            return note(owner, name, _find(owner, name))
        space: Any = getattr(owner, "__dict__", None)
        if space.__class__ is not dict or hasattr(found, "__set__"):
            return MISSING
        known = note(space, name, _find(space, name))
        if known is not MISSING:
            return known
    return MISSING if kind is None or hasattr(found, "__get__") else note(kind, name, found)


def _find(space: object, name: str) -> object:
    if isinstance(space, dict):
        return cast("dict[str, object]", space).get(name, MISSING)
    try:
        return getattr(space, name, MISSING)
    except ValueError:
        return MISSING  # a cell that is empty


def _is_same(known: object, found: object) -> bool:
    """Whether code for ``known`` is code for ``found``: the same object, or an equal number."""
    kind = type(known)
    if known is found or kind is not type(found):
        return known is found
    if isinstance(known, np.generic):
        # One class has one dtype here: kernels know none of times and of texts.
        return known.tobytes() == cast("np.generic[Any]", found).tobytes()
    if kind is float:
        return struct.pack("d", known) == struct.pack("d", found)
    return kind in (int, str) and known == found


def cell_of(pyfunc: Any, name: str) -> CellType | None:
    """The cell of variable ``name`` of the scope around ``pyfunc``; None if there is none."""
    names: Sequence[str] = pyfunc.__code__.co_freevars
    return pyfunc.__closure__[names.index(name)] if name in names else None
