"""Gradients of arrays with ``retain_grad``: copies from before a backward pass clears them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from kernelcore.autograd.records import CopyRecord, LaunchRecord, Record, Records, record_at
from kernelcore.base import native
from kernelcore.base.errors import KernelGradError
from kernelcore.base.lazy import Deferred
from kernelcore.language.types import Scalar
from kernelcore.launch.array_ops import overwrite, snapshot
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.gradient import Retention
from kernelcore.runtime.call_site import whole_line
from kernelcore.runtime.hooks import capture_sink

# Passes without retained arrays do not need the compiler's front end.
if TYPE_CHECKING:
    from kernelcore.ir import op
    from kernelcore.passes.access import effects
else:
    op = Deferred("kernelcore.ir.op")
    effects = Deferred("kernelcore.passes.access.effects")


def retaining(arrays: Iterable[Array]) -> list[Array]:
    """The arrays that own gradients of ``arrays`` in which a pass has retained cotangents."""
    owners = (array.gradient_owner for array in arrays)
    return list(dict.fromkeys(owner for owner in owners if owner.retention is not None))


def undo(owners: Sequence[Array], cleared: Collection[Array]) -> None:
    """Take retained cotangents out of the gradients of ``owners``, where nothing was written since.

    Args:
        owners: Arrays of ``retaining``.
        cleared: Those whose gradients the pass is going to clear.

    Raises:
        KernelGradError: In a capture, whose replays cannot tell; or a part of a gradient may have
            been written since, and another one not.
    """
    for owner in owners:
        found, owner.retention = owner.retention, None
        if found is None or found.gradient is not owner.grad or owner in cleared:
            continue
        if capture_sink() is not None:
            raise _captured()
        _undo(found)


def _undo(found: Retention) -> None:
    now, after, before = (_bits(a) for a in (found.gradient, found.after, found.before))
    is_same = np.all(now == after, axis=-1)
    is_retained = np.any(after != before, axis=-1)
    if found.gradient.version == found.version:
        # Other libraries write elements without a change of version.
        items = np.where(is_same[:, None], before, now)
        values = found.before.numpy()
        found.gradient.assign(items.reshape(-1).view(values.dtype).reshape(values.shape))
    elif np.any(is_retained) and np.all(is_same[is_retained]) and not np.all(is_same):
        raise KernelGradError(
            "backward: a part of a gradient was written after a pass had retained cotangents in "
            "other elements",
            remedy="zero the gradient before you write cotangents, or give them as grads",
        )


def _bits(array: Array) -> np.ndarray:
    """A row of bytes per element."""
    values = np.ascontiguousarray(array.numpy())
    return values.reshape(-1).view(np.uint8).reshape(values.size, -1)


def _captured() -> KernelGradError:
    return KernelGradError(
        "backward: a replay of this pass would start from the gradients that the one before "
        "retained",
        remedy="give loss or grads, or set retain_grad of the arrays to False",
    )


Accesses = Callable[[Kernel], "effects.AccessMap"]


class RetainedGradients:
    """Copies of cotangents from before a backward pass clears them, written to ``grad`` at its end.

    The pass computes with the gradients as it does without them.

    Args:
        arrays: The arrays with ``retain_grad`` that the tape wrote.
        records: Those of the tape.
        is_seeded: Whether the pass starts from a loss or cotangents that are given.

    Raises:
        KernelGradError: In a capture, whose replays would take the copies for cotangents.
    """

    def __init__(self, arrays: Sequence[Array], records: Records, *, is_seeded: bool) -> None:
        if arrays and not is_seeded and capture_sink() is not None:
            raise _captured()
        self.arrays = arrays
        self._records = records
        # By place (address, strides, layout): the owner, its part, and the copy. The latest write
        # comes first.
        self._kept: dict[Hashable, tuple[Array, Array, Array]] = {}
        # Many records are of few kernels.
        self._accesses: Accesses = cache(_accesses_of)

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
                if not _stores_all(record, array, self._accesses):
                    self._check_others(array, gradient, number)
                self._kept[place] = array.gradient_owner, gradient, snapshot(gradient)

    def _check_others(self, array: Array, gradient: Array, number: int) -> None:
        """Refuse if gradients are added to elements that the record may not have stored."""
        writer, place = record_at(self._records, number), _place(gradient)
        for n in range(number, -1, -1):
            record = record_at(self._records, n)
            same = [a for a in record.cleared if a.grad is not None and _place(a.grad) == place]
            if any(_stores_all(record, other, self._accesses) for other in same):
                return
            if _may_add_to(record, gradient.span, self._accesses):
                raise KernelGradError(
                    f"{writer.label}: '{writer.name_of(array)}' retains its gradient, but this "
                    f"launch may leave elements unchanged that {record.label} read before it",
                    whole_line(writer.site),
                    "give the launch the part that it writes, such as states[t], and a thread for "
                    "each element; or set retain_grad to False",
                )

    def write(self) -> None:
        """Write the copies to the gradients, those of the latest writes on top."""
        owners = dict.fromkeys(owner for owner, _, _ in self._kept.values())
        is_captured = capture_sink() is not None
        before = {owner: snapshot(_whole(owner)) for owner in owners if not is_captured}
        for _, part, kept in reversed(self._kept.values()):
            overwrite(part, kept)
        for owner in owners:
            whole = _whole(owner)
            owner.retention = (
                None
                if is_captured
                else Retention(whole, whole.version, before[owner], snapshot(whole))
            )


def _accesses_of(kernel: Kernel) -> effects.AccessMap:
    return effects.AccessMap(kernel.func)


def _whole(owner: Array) -> Array:
    assert owner.grad is not None
    return owner.grad


def _place(gradient: Array) -> Hashable:
    return gradient.ptr, gradient.strides, gradient.layout


def _stores_all(record: Record, array: Array, accesses: Accesses) -> bool:
    """Whether ``record``, which stores elements of ``array``, is seen to store every one."""
    if not isinstance(record, LaunchRecord):
        return True
    kernel, dim = record.kernel, record.dim
    grid = tuple(dim) if isinstance(dim, Sequence) else (int(dim),)
    return grid == array.shape and any(
        accesses(kernel).covers_grid(kernel.func.params[i])
        for i in record.plan.outputs
        if record.leaves[i] is array
    )


def _may_add_to(record: Record, span: native.Span, accesses: Accesses) -> bool:
    """Whether the backward pass of ``record`` may add to gradients in ``span``."""

    def is_there(array: Array | None) -> bool:
        gradient = None if array is None else array.grad
        return gradient is not None and gradient.span.overlaps(span)

    match record:
        case LaunchRecord():
            found = [i for i in record.plan.wrt if is_there(record.leaves[i])]
            kernel = record.kernel
            # Atomic operations read an element without a use of its value.
            return any(
                isinstance(param.type, Scalar) or accesses(kernel).has(param, op.OpKind.LOAD)
                for param in (kernel.func.params[i] for i in found)
            )
        case CopyRecord(_, source):
            return is_there(source)
        case _:
            return any(is_there(array) for array in record.inputs)
