"""Versions: what is made of each version of a kernel, as the names around it change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kernelcore.base import native
from kernelcore.launch.kernel import Kernel

Made = TypeVar("Made")
# As many as a kernel keeps of itself.
_MOST = 16


class Versions(Generic[Made]):
    """What is made of each version of a kernel that is not generic; called, of the current one.

    Attributes:
        kernel: The first version.
    """

    def __init__(
        self, kernel: Kernel, make: Callable[[Kernel], Made], first: Made | None = None
    ) -> None:
        self.kernel = kernel
        self._make = make
        self._made: dict[Kernel, Made] = {} if first is None else {kernel: first}

    def __call__(self) -> Made:
        """That of the version for what the names around the kernel stand for.

        Raises:
            KernelError: The version does not compile, or is no such operation.
        """
        return self._of(self.kernel.current())

    def following(self, function_of: Callable[[Made], Callable[..., Any]]) -> Callable[..., Any]:
        """The function of what is made of the current version, whichever that is in a call."""

        def find() -> tuple[native.BoundNames, Callable[..., Any]]:
            version = self.kernel.current()
            function = function_of(self._of(version))
            return version.names.checked, function

        return native.following(find, self.kernel.name)

    def _of(self, version: Kernel) -> Made:
        found = self._made.get(version)
        if found is None:
            found = self._make(version)
            if len(self._made) >= _MOST:
                self._made.pop(next(iter(self._made)), None)
            self._made[version] = found
        return found
