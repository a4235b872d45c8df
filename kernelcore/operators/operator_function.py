"""OperatorFunction: an operator that an adapter makes, called like a function."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from pickle import PicklingError
from typing import Any

from kernelcore.language import pickling
from kernelcore.operators.arguments import Arguments


class OperatorFunction:
    """An operator, called like a function and pickled by its name or as the call that made it.

    Attributes:
        pyfunc: The Python function that it is made of.
        remake: Makes it again; None of a part of another operator.
    """

    framework = ""
    remake: Callable[[], OperatorFunction] | None = None

    def __init__(self, pyfunc: Callable[..., Any], arguments: Arguments) -> None:
        self.pyfunc = pyfunc
        self.__name__ = self.__qualname__ = pyfunc.__name__
        self.__module__ = pyfunc.__module__
        self.__doc__ = pyfunc.__doc__
        self.__wrapped__ = pyfunc
        self.__signature__ = Signature(
            [
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD,
                    default=arguments.defaults.get(name, Parameter.empty),
                )
                for name in arguments.names
            ]
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __copy__(self) -> OperatorFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> OperatorFunction:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return pickling.reduced(self, self.pyfunc, self._by_call)

    def _by_call(self) -> tuple[Any, ...]:
        if self.remake is None:
            raise PicklingError(f"{self!r} is part of another operator: pickle that")
        return self.remake, ()

    def __repr__(self) -> str:
        return f"<{self.framework} operator {self.__module__}.{self.pyfunc.__qualname__}>"


class NumpyFunction(OperatorFunction):
    """An operator of NumPy arrays, which ``run`` is."""

    framework = "NumPy"

    def __init__(
        self, pyfunc: Callable[..., Any], arguments: Arguments, run: Callable[..., Any]
    ) -> None:
        super().__init__(pyfunc, arguments)
        self._run = run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)
