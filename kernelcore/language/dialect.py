"""Dialects: kernels in which operators of numbers mean what another language gives them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kernelcore.base.dataclass import dataclass
from kernelcore.base.lazy import Deferred

if TYPE_CHECKING:
    from kernelcore.language import pickling
    from kernelcore.language.function import Function
else:
    # Kernels are pickled rarely.
    pickling = Deferred("kernelcore.language.pickling")

# The attribute of a Python function that is written in a dialect.
_DIALECT = "__kernelcore_dialect__"


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """The meaning of operators between scalars, where it is not that of the kernel language.

    Attributes:
        name: What errors and representations of kernels call it.
        home: The module that has it under ``DIALECT``.
        operators: By the names of Python's operator classes, such as 'Mod', functions of the kernel
            language that stand for them. What they do not take is as in the kernel language.
        functions: By the names of Python's functions, such as 'round', what stands for them.
        module: What ``Kernel.module`` is, by the name of the Python module.
        counts_back: Whether negative indices of arrays that are known count from the end.
    """

    name: str
    home: str
    operators: Mapping[str, Function]
    functions: Mapping[str, Function]
    module: Callable[[str], Any] = sys.modules.get
    counts_back: bool = False

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return pickling.found, (self.home, "DIALECT")


def written_in(pyfunc: Callable[..., Any], dialect: Dialect) -> FunctionType:
    """A function of the code, names and defaults of ``pyfunc`` that is written in ``dialect``."""
    assert isinstance(pyfunc, FunctionType)
    made = FunctionType(
        pyfunc.__code__,
        pyfunc.__globals__,
        pyfunc.__name__,
        pyfunc.__defaults__,
        pyfunc.__closure__,
    )
    made.__dict__.update(pyfunc.__dict__)
    made.__kwdefaults__ = pyfunc.__kwdefaults__
    made.__annotations__ = pyfunc.__annotations__
    made.__doc__, made.__module__ = pyfunc.__doc__, pyfunc.__module__
    made.__qualname__ = pyfunc.__qualname__
    setattr(made, _DIALECT, dialect)
    return made


def dialect_of(pyfunc: Callable[..., Any]) -> Dialect | None:
    """The dialect that ``pyfunc`` is written in; None for the kernel language."""
    return getattr(pyfunc, _DIALECT, None)


def in_dialect(what: str, pyfunc: Callable[..., Any]) -> str:
    """``what`` with the name of the dialect that ``pyfunc`` is written in, if it is."""
    dialect = dialect_of(pyfunc)
    return what if dialect is None else f"{dialect.name} {what}"
