"""Function: a user function written in the kernel language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Function:
    """A function that kernels call; it is specialised for the types of each call.

    Calling it on the host runs the Python code.
    """

    pyfunc: Callable[..., Any]

    @property
    def name(self) -> str:
        """The name it was defined with."""
        return self.pyfunc.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.pyfunc(*args, **kwargs)
