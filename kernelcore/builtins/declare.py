"""``@builtin``: the one way to add an operation to the table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelTypeError
from kernelcore.builtins.componentwise import on_components
from kernelcore.builtins.library import LIBRARY
from kernelcore.builtins.reference import evaluate
from kernelcore.builtins.spelling import Spelling
from kernelcore.ir.op import Division, Op, OpKind
from kernelcore.language.composite import Composite
from kernelcore.language.types import TYPE_CLASSES, Scalar

__all__ = ["Any", "Bool", "Builtin", "Float", "Int", "Number", "builtin", "registering"]

# The type classes of signatures, for type checkers.
Bool: TypeAlias = bool
Int: TypeAlias = int
Float: TypeAlias = float
Number: TypeAlias = Any

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Builtin(Generic[P, R]):
    """An Op as a Python function with the declared signature; the host evaluates ``ref``."""

    op: Op
    module: str = __name__

    def __post_init__(self) -> None:
        # For help(), in place of those of this class.
        object.__setattr__(self, "__name__", self.op.name)
        object.__setattr__(self, "__qualname__", self.op.name)
        object.__setattr__(self, "__signature__", _signature(self.op))
        object.__setattr__(self, "__doc__", self.op.doc)
        object.__setattr__(self, "__module__", self.module)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if any(isinstance(a, Composite) for a in (*args, *kwargs.values())):
            function = LIBRARY.get(self.op.name)
            if function is not None and function.takes(*args, **kwargs):
                return function(*args, **kwargs)
            return cast(R, on_components(self.op, self._named(args, kwargs)))
        arguments = self._named(args, kwargs)
        assert self.op.ref is not None
        with np.errstate(all="ignore"):
            return cast(R, evaluate(self.op.ref, list(arguments.values())))

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by the names of the parameters, in their order."""
        names = list(self.op.params)[len(args) :]
        if len(args) > len(self.op.params) or set(kwargs) != set(names):
            raise KernelTypeError(
                f"{self!r}: expected the arguments {', '.join(self.op.params)}",
                remedy="on the host, built-ins take scalars, vectors, matrices and NumPy arrays",
            )
        positional = zip(self.op.params, args, strict=False)
        return dict(positional) | {name: kwargs[name] for name in names}

    def __repr__(self) -> str:
        return self.op.signature


def _signature(op: Op) -> inspect.Signature:
    """The signature of an operation, in type classes."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [inspect.Parameter(name, kind, annotation=c) for name, c in op.params.items()]
    return inspect.Signature(names, return_annotation=op.result)


_open_tables: list[dict[str, Builtin[..., Any]]] = []


@contextmanager
def registering() -> Generator[dict[str, Builtin[..., Any]]]:
    """Collect what ``@builtin`` declares inside; outside of it nothing can be declared."""
    table: dict[str, Builtin[..., Any]] = {}
    _open_tables.append(table)
    try:
        yield table
    finally:
        _open_tables.pop()


def builtin(
    *,
    lower: Callable[..., str],
    ref: Callable[..., Any],
    grad: Mapping[str, str] | None = None,
    no_grad: str | None = None,
    injective: bool = False,
    stride: Callable[[Sequence[int], Sequence[int | None]], int | None] | None = None,
    rmw: Mapping[str, str] | None = None,
    division: Division | None = None,
    neutral: Callable[[Scalar], float] | None = None,
    array: Spelling | None = None,
) -> Callable[[Callable[P, R]], Builtin[P, R]]:
    """Enter the decorated stub into the table; its annotations name type classes.

    Args:
        lower: How code is emitted (``builtins/lowering.py``).
        ref: The meaning on NumPy scalars.
        grad: Per argument, the cotangent as a formula over the arguments, ``out`` and ``ct``; an
            argument left out has derivative zero.
        no_grad: Why there is no derivative. Give exactly one of ``grad`` and ``no_grad``.
        injective: Whether an integer result is an injective function of each argument.
        stride: By how much an integer result grows as its arguments grow (``ir/op.py``).
        rmw: By kind of scalar, LLVM's ``atomicrmw`` for it.
        division: Which part of a division of integers it is (``ir/op.py``).
        neutral: By type, the value that changes no other one (``ir/op.py``).
        array: How frameworks compute it on whole arrays; without, no graph of theirs has it.

    Raises:
        ValueError: The declaration is inconsistent, or its name is taken.
    """

    def register(stub: Callable[P, R]) -> Builtin[P, R]:
        name = stub.__name__
        params = {arg: str(cls) for arg, cls in inspect.get_annotations(stub).items()}
        result = params.pop("return", "")
        if (grad is None) == (no_grad is None):
            raise ValueError(f"{name}: give exactly one of grad= and no_grad='reason'")
        if grad is not None and not set(grad) <= set(params):
            raise ValueError(f"{name}: grad= names {sorted(set(grad) - set(params))}: no arguments")
        unknown = {*params.values(), result} - set(TYPE_CLASSES)
        if unknown:
            raise ValueError(f"{name}: {sorted(unknown)} are no type classes")
        if not _open_tables:
            raise ValueError(f"{name}: the table of built-ins is sealed")
        if any(name in table for table in _open_tables):
            raise ValueError(f"{name}: declared twice")
        op = Op(
            name=name,
            kind=OpKind.PURE,
            params=MappingProxyType(params),
            result=result,
            doc=inspect.getdoc(stub) or "",
            lower=lower,
            ref=ref,
            grad=None if grad is None else MappingProxyType(dict(grad)),
            no_grad=no_grad,
            injective=injective,
            stride=stride,
            rmw=MappingProxyType(dict(rmw or {})),
            division=division,
            neutral=neutral,
            array=array,
        )
        entry: Builtin[P, R] = Builtin(op, stub.__module__)
        _open_tables[-1][name] = cast("Builtin[..., Any]", entry)
        return entry

    return register
