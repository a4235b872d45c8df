"""``Tape`` with the methods that only Warp's has."""

from __future__ import annotations

from typing import Any

import kernelcore as kc
from kernelcore.runtime.structs import StructValue


class Tape(kc.Tape):
    """``kernelcore.Tape``, and names of Warp's.

    Attributes:
        loss: The loss of the last backward pass, or None.
        scopes: What ``record_scope_begin`` and ``record_scope_end`` were given, with the number of
            launches before.
    """

    def __init__(self, *, keep_overwritten: bool = False) -> None:
        super().__init__(keep_overwritten=keep_overwritten)
        self.loss: kc.Array | None = None
        self.scopes: list[tuple[int, str | None, Any]] = []

    def backward(self, loss: kc.Array | None = None, grads: Any = None) -> None:
        """As ``kernelcore.Tape.backward``."""
        self.loss = loss
        super().backward(loss, grads)

    def record_scope_begin(self, scope_name: str, metadata: Any = None) -> None:
        """Note that a part of the program begins; gradients do not follow it."""
        self.scopes.append((len(self), scope_name, metadata))

    def record_scope_end(self, remove_scope_if_empty: bool = True) -> None:
        """Note that the part ends, or forget it if it recorded nothing."""
        if remove_scope_if_empty and self.scopes and self.scopes[-1][0] == len(self):
            self.scopes.pop()
        else:
            self.scopes.append((len(self), None, None))

    def get_adjoint(self, a: Any) -> Any:
        """The gradient of an array, a struct of those of a struct, or None."""
        if isinstance(a, StructValue):
            return self.gradients[a]
        return a.grad if isinstance(a, kc.Array) else None

    @property
    def launches(self) -> list[tuple[kc.Kernel, Any, int, list[Any], list[Any]]]:
        """Kernel, grid, 0, arguments and nothing more, of every recorded launch.

        Arguments that are structs are their arrays and numbers, one by one.
        """
        found: list[Any] = [r for r in self.records if hasattr(r, "plan")]
        return [(r.kernel, r.dim, 0, list(r.leaves), []) for r in found]

    def reset(self) -> None:
        """Forget all records, and zero the gradients."""
        super().reset()
        self.scopes, self.loss = [], None
