"""Function: a function written in the kernel language, with all its overloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Overload:
    """One definition of a function.

    Attributes:
        pyfunc: The Python function.
        updates: Parameters that a call assigns: the definition returns their new values after its
            result.
        no_grad: Why it has no derivative, or None.
        is_library: Whether it is part of kernelcore.
    """

    pyfunc: Callable[..., Any]
    updates: tuple[str, ...] = ()
    no_grad: str | None = None
    is_library: bool = False


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Function:
    """A function that kernels call; it is specialised for the types of each call.

    Calling it on the host runs the Python code of the first overload that takes as many arguments.

    Attributes:
        name: The name it was defined with.
        overloads: Its definitions, the first one first; more may be added.
        is_library: Whether it is part of kernelcore.
    """

    name: str
    overloads: list[Overload] = field(default_factory=list[Overload])
    is_library: bool = False

    def add(self, overload: Overload) -> None:
        """Add a definition, in place of one with the same annotations."""
        signature = _annotations(overload.pyfunc)
        for place, known in enumerate(self.overloads):
            if _annotations(known.pyfunc) == signature:
                self.overloads[place] = overload
                return
        self.overloads.append(overload)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloads[0].pyfunc(*args, **kwargs)


def _annotations(pyfunc: Callable[..., Any]) -> list[tuple[str, str]]:
    """The parameters and their annotations as text."""
    found = getattr(pyfunc, "__annotations__", {})
    code = pyfunc.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [(name, repr(found.get(name))) for name in names]
