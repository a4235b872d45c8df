"""The names around a kernel that its code was made with, and the objects that they stood for.

Code is right while the names stand for the same objects. What objects contain, apart from the
attributes of modules and classes, is read once, as the values of constants are.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import CellType, ModuleType
from typing import Any, cast

from kernelcore.base import native

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


class BoundNames:
    """Names and the objects that they stood for when code was made."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, str], Row] = {}
        self.checked = native.BoundNames([])

    def __bool__(self) -> bool:
        return bool(self.rows)

    @contextmanager
    def reading(self) -> Generator[None]:
        """Keep the names that this thread looks up inside, unless that fails."""
        outer, _reader.rows = _reader.rows, {}
        try:
            yield
            self._keep({**self.rows, **_reader.rows})
        finally:
            _reader.rows = outer

    def hold(self) -> bool:
        """Whether all names stand for the objects that they stood for, or for equal numbers."""
        if self.checked.hold():
            return True
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
        self.checked = native.BoundNames(found)


def note(space: object, name: str, found: object) -> None:
    """Say that ``name`` stands for ``found`` in ``space``, if somebody keeps what is read."""
    # A module is not replaced; its attributes are names, too.
    if _reader.rows is not None and not isinstance(found, ModuleType):
        _reader.rows.setdefault((id(space), name), (space, name, found))


def note_attribute(owner: object, name: str, found: object) -> None:
    """Say that the attribute ``name`` of ``owner`` is ``found``, if ``owner`` has it as a name."""
    if isinstance(owner, ModuleType):
        if not owner.__name__.startswith("kernelcore"):
            note(vars(owner), name, found)
    elif isinstance(owner, type):
        if name in vars(owner):
            note(owner, name, found)
    elif name in (space := getattr(owner, "__dict__", {})):
        note(space, name, found)


def _find(space: object, name: str) -> object:
    if isinstance(space, dict):
        return cast("dict[str, object]", space).get(name, MISSING)
    try:
        return getattr(space, name, MISSING)
    except ValueError:
        return MISSING  # a cell that is empty


def _is_same(known: object, found: object) -> bool:
    """Whether code for ``known`` is code for ``found``: the same object, or an equal number."""
    if known is found:
        return True
    if type(known) is not type(found) or type(known) not in (bool, int, float, str):
        return False
    if isinstance(known, float):
        return struct.pack("d", known) == struct.pack("d", cast(float, found))
    return known == found


def cell_of(pyfunc: Any, name: str) -> CellType | None:
    """The cell of variable ``name`` of the scope around ``pyfunc``; None if there is none."""
    names: Sequence[str] = pyfunc.__code__.co_freevars
    return pyfunc.__closure__[names.index(name)] if name in names else None
