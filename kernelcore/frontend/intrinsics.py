"""Intrinsics: the functions of the kernel language that are no operation on scalars."""

from __future__ import annotations

from typing import Any

from kernelcore.errors import KernelError


class Intrinsic:
    """A name that the frontend itself gives a meaning to; it has none on the host.

    Attributes:
        name: Its public name.
        usage: How it is written.
    """

    def __init__(self, name: str, usage: str, doc: str) -> None:
        self.name = name
        self.usage = usage
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise KernelError(
            f"{self.name}() was called outside of a kernel",
            remedy="call it in a function decorated with @kernel",
        )


tid = Intrinsic(
    "tid",
    "i = tid() or i, j = tid()",
    "The index of this thread in the launch: one int32 per target, up to 4.",
)
atomic_add = Intrinsic(
    "atomic_add",
    "atomic_add(array, i, ..., value)",
    "Add ``value`` to an array element and return what it was before; never loses an update.",
)
