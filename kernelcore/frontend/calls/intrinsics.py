"""Intrinsics: functions that the frontend lowers itself, such as atomics and launch indices."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from kernelcore.base.errors import KernelError
from kernelcore.language.reinterpretation import bits_as

# What intrinsics mean where a kernel runs in Python; None where none runs.
host: ContextVar[Callable[[str, tuple[Any, ...]], Any] | None] = ContextVar("host", default=None)


class Intrinsic:
    """A function that the frontend lowers.

    Attributes:
        name: Its public name.
        usage: How it is written.
        derivative: Whether it has one.
        ref: Its meaning on the host; None if it has one in kernels only.
        keywords: The names of its parameters, if arguments may be given by them.
    """

    def __init__(
        self,
        name: str,
        usage: str,
        doc: str,
        derivative: str = "none",
        *,
        ref: Callable[..., Any] | None = None,
        keywords: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.usage = usage
        self.derivative = derivative
        self.ref = ref
        self.keywords = keywords
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.ref is not None:
            return self.ref(*args, **kwargs)
        evaluate = host.get()
        if evaluate is not None and not kwargs:
            return evaluate(self.name, args)
        raise KernelError(
            f"{self.name}() was called outside of a kernel",
            remedy="call it in a function decorated with @kernel",
        )

    def __repr__(self) -> str:
        return self.usage


tid = Intrinsic(
    "tid",
    "i = tid() or i, j = tid()",
    "The index of this thread in the launch: one int32 per target, up to 4.",
)

printf = Intrinsic(
    "printf",
    'printf("%d %f\\n", i, x)',
    "Print numbers under C's directives %d %i %u %x %o %f %e %g; one call is one piece of text.",
)

address_of = Intrinsic(
    "address_of",
    "address_of(x), an argument",
    "The place that a parameter ``ref[T]`` of a function assigns; the same as the place itself.",
    derivative="of what is assigned",
)


bitcast = Intrinsic(
    "bitcast",
    "bitcast(x, dtype)",
    "The bits of ``x`` as a value of another type of the same size, as ``array.view`` sees them.",
    derivative="0",
    ref=bits_as,
    keywords=("x", "dtype"),
)


def _atomic(name: str, doc: str, *values: str, derivative: str = "none") -> Intrinsic:
    usage = f"{name}(array, i, ..., {', '.join(values or ('value',))})"
    return Intrinsic(name, usage, f"{doc} Returns its old value.", derivative)


atomic_add = _atomic(
    "atomic_add",
    "Add ``value`` to an array element; no update is lost.",
    derivative="of the sum",
)
atomic_sub = _atomic(
    "atomic_sub",
    "Subtract ``value`` from an array element; no update is lost.",
    derivative="of the sum",
)
atomic_min = _atomic(
    "atomic_min",
    "Make an array element the smaller of itself and ``value``.",
    derivative="of what remains; equal values share it",
)
atomic_max = _atomic(
    "atomic_max",
    "Make an array element the larger of itself and ``value``.",
    derivative="of what remains; equal values share it",
)
atomic_exch = _atomic(
    "atomic_exch",
    "Replace an array element by ``value``.",
    derivative="where one thread alone touches the element",
)
atomic_cas = _atomic(
    "atomic_cas",
    "Replace an array element by ``new`` if it is ``expected``, bit for bit.",
    "expected",
    "new",
)
atomic_and = _atomic("atomic_and", "Clear the bits of an array element that ``value`` has not.")
atomic_or = _atomic("atomic_or", "Set the bits of an array element that ``value`` has.")
atomic_xor = _atomic("atomic_xor", "Flip the bits of an array element that ``value`` has.")
