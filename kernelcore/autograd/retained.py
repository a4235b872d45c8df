"""Gradients of arrays with ``retain_grad``: copies from before a backward pass clears them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from kernelcore.autograd.records import CopyRecord, LaunchRecord, Record, Records, record_at
from kernelcore.base import native
from kernelcore.base.errors import KernelGradError
from kernelcore.base.lazy import Deferred
from kernelcore.ir.op import OpKind
from kernelcore.language.types import Scalar
from kernelcore.launch.array_ops import overwrite, snapshot
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.gradient import Retention
from kernelcore.runtime.call_site import whole_line
from kernelcore.runtime.hooks import capture_sink

# Only launches that are not seen to store all elements need the compiler's front end.
if TYPE_CHECKING:
    from kernelcore.passes.access import effects
else:
    effects = Deferred("kernelcore.passes.access.effects")


class RetainedGradients:
    """Copies of gradients from before a backward pass clears them, which it puts back in the end.

    The pass computes with the gradients as it does without them.

    Args:
        arrays: The arrays with ``retain_grad`` that the tape wrote.
        records: Those of the tape.
    """

    def __init__(self, arrays: Sequence[Array], records: Records) -> None:
        self.arrays = arrays
        self._records = records
        # The owners of gradients, parts of these by place, and copies; the latest write is first.
        self._kept: dict[Hashable, tuple[Array, Array, Array]] = {}

    def take_back(self) -> None:
        """Restore what earlier passes left in the gradients, where nothing was written since.

        Raises:
            KernelGradError: In a capture, whose replays would take them for cotangents.
        """
        if self.arrays and capture_sink() is not None:
            raise KernelGradError(
                "backward: a replay of this pass would start from the gradients that the one "
                "before retained",
                remedy="give loss or grads, or set retain_grad of the arrays to False",
            )
        for owner in dict.fromkeys(array.gradient_owner for array in self.arrays):
            found, owner.retention = owner.retention, None
            if found is None or found.gradient is not owner.grad:
                continue
            if found.gradient.version == found.version:
                for part, before in reversed(found.replaced):
                    overwrite(part, before)

    def keep(self, number: int) -> None:
        """Copy the gradients that the backward pass of that record is about to clear.

        Raises:
            KernelGradError: It clears some elements, which are unknown, and gradients are added to
                the others later in the pass.
        """
        if not self.arrays:
            return
        record = record_at(self._records, number)
        for array in record.cleared:
            gradient = array.grad
            if gradient is None or not array.retain_grad:
                continue
            place = _place(gradient)
            if place not in self._kept:
                if not _stores_all(record, array):
                    self._check_others(array, gradient, number)
                self._kept[place] = array.gradient_owner, gradient, snapshot(gradient)

    def _check_others(self, array: Array, gradient: Array, number: int) -> None:
        """Refuse if gradients are added to elements that the record may not have stored."""
        writer, place = record_at(self._records, number), _place(gradient)
        for n in range(number, -1, -1):
            record = record_at(self._records, n)
            same = [a for a in record.cleared if a.grad is not None and _place(a.grad) == place]
            if any(_stores_all(record, other) for other in same):
                return
            if _adds_to(record, gradient.span):
                raise KernelGradError(
                    f"{writer.label}: '{writer.name_of(array)}' retains its gradient, and it is "
                    f"not seen that every element is stored, while {record.label} reads some",
                    whole_line(writer.site),
                    "give the launch the part that it writes, such as states[t], and a thread for "
                    "each element; or set retain_grad to False",
                )

    def put(self) -> None:
        """Put the copies into the gradients, those of the latest writes on top."""
        replaced: dict[Array, list[tuple[Array, Array]]] = {}
        is_captured = capture_sink() is not None
        for owner, part, kept in reversed(self._kept.values()):
            parts = replaced.setdefault(owner, [])
            if not is_captured:
                parts.append((part, snapshot(part)))
            overwrite(part, kept)
        for owner, parts in replaced.items():
            whole = owner.grad
            assert whole is not None
            owner.retention = None if is_captured else Retention(whole, whole.version, parts)


def _place(gradient: Array) -> Hashable:
    return gradient.ptr, gradient.strides, gradient.layout


def _stores_all(record: Record, array: Array) -> bool:
    """Whether ``record``, which stores elements of ``array``, is seen to store every one."""
    if not isinstance(record, LaunchRecord):
        return True
    func, dim = record.kernel.func, record.dim
    grid = (dim,) if isinstance(dim, int) else tuple(dim)
    accesses = effects.AccessMap(func)
    return any(
        accesses.covers_grid(func.params[i]) and grid == array.shape
        for i in record.plan.outputs
        if record.leaves[i] is array
    )


def _adds_to(record: Record, span: native.Span) -> bool:
    """Whether the backward pass of ``record`` may add to gradients in ``span``."""

    def is_there(array: Array | None) -> bool:
        gradient = None if array is None else array.grad
        return gradient is not None and gradient.span.overlaps(span)

    match record:
        case LaunchRecord():
            found = [i for i in record.plan.wrt if is_there(record.leaves[i])]
            func = record.kernel.func
            accesses = effects.AccessMap(func) if found else None
            # Atomic operations read an element without a use of its value.
            return accesses is not None and any(
                isinstance(func.params[i].type, Scalar) or accesses.has(func.params[i], OpKind.LOAD)
                for i in found
            )
        case CopyRecord(_, source):
            return is_there(source)
        case _:
            return any(is_there(array) for array in record.inputs)
