"""JaxFunction: what the functions that jax_kernel and jax_callable make have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from inspect import Signature, signature
from typing import Any

from kernelcore.operators import Spec, cached_property, pickling


@dataclass(frozen=True, eq=False)
class JaxFunction(ABC):
    """A dataclass of options, called like a function.

    Two with the same options are equal, so modules that hold them are equal trees.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "__name__", self.pyfunc.__name__)
        object.__setattr__(self, "__doc__", self.pyfunc.__doc__)
        object.__setattr__(self, "__wrapped__", self.pyfunc)

    @property
    def __signature__(self) -> Signature:
        return signature(self.__call__)

    @abstractmethod
    def __call__(self, *args: Any, **named: Any) -> Any: ...

    def __repr__(self) -> str:
        return f"<JAX operator {self.pyfunc.__module__}.{self.pyfunc.__qualname__}>"

    @property
    @abstractmethod
    def pyfunc(self) -> Callable[..., Any]:
        """The Python function that it is made of."""

    @property
    def _options(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f.name) for f in fields(self))

    @cached_property
    def _identity(self) -> Hashable:
        return tuple(o.identity if isinstance(o, Spec) else o for o in self._options)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity == other._identity  # pyright: ignore

    def __hash__(self) -> int:
        return hash(self._identity)

    def __copy__(self) -> JaxFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> JaxFunction:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return pickling.reduced(self, self.pyfunc, lambda: (type(self), self._options))
