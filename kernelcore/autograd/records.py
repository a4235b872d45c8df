"""Records of launches, assignments and functions, run backwards by a Tape; gradients by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelcore.autograd.launch_plan import LaunchPlan
from kernelcore.base import native
from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelArgumentError, KernelGradError, SrcLoc
from kernelcore.language.types import ArrayOf, ArrayType, StructType, element_type
from kernelcore.launch.adjoint_kernel import Adjoint
from kernelcore.launch.adjoint_launch import execute_adjoint
from kernelcore.launch.array_ops import add_to, copy_of, layout, new_zeros, pull
from kernelcore.launch.dispatch import Dims
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.element_layout import as_numpy
from kernelcore.runtime.call_site import Line, as_text, location, whole_line
from kernelcore.runtime.device import CPU, Device
from kernelcore.runtime.hooks import capture_sink
from kernelcore.runtime.structs import StructValue


@dataclass(eq=False, slots=True)
class LaunchRecord:
    """A recorded launch.

    Attributes:
        plan: The plan for its kernel and the kinds of its arguments.
        dim: The grid.
        leaves: The flattened arguments.
        line: The line of the launch.
        device: The device that ran it.
        versions: The versions after the launch of arrays that the adjoint reads.
        saved: Copies of other arrays that the adjoint reads, from before the launch, by parameter.
        final: Copies of arrays of atomic minima or maxima from after it, by parameter.
    """

    plan: LaunchPlan
    dim: Dims
    leaves: tuple[Any, ...]
    line: Line | None
    device: Device = CPU
    versions: dict[int, int] = field(default_factory=dict[int, int])
    saved: dict[int, Any] = field(default_factory=dict[int, Any])
    final: dict[int, Any] = field(default_factory=dict[int, Any])

    @property
    def kernel(self) -> Kernel:
        """The kernel, which is not generic."""
        return self.plan.kernel

    @property
    def inputs(self) -> Sequence[Array]:
        """Arrays that were loaded."""
        return [self.leaves[i] for i in self.plan.inputs]

    @property
    def outputs(self) -> Sequence[Array]:
        """Arrays that were written."""
        return [self.leaves[i] for i in self.plan.outputs]

    @property
    def cleared(self) -> Sequence[Array]:
        """Arrays whose cotangents the adjoint clears: those that were not only added to."""
        effects = self.kernel.effects
        return [self.leaves[i] for i in self.plan.outputs if effects[i].stores]

    @property
    def site(self) -> SrcLoc | None:
        return location(self.line)

    @property
    def label(self) -> str:
        return f"the launch of {self.kernel.name} at {as_text(self.site)}"

    def name_of(self, array: Array) -> str:
        known = sorted({*self.plan.inputs, *self.plan.outputs})
        return next(self.kernel.leaves[i][0] for i in known if self.leaves[i] is array)

    def save_before(self) -> None:
        """Before the launch: copy arrays that it may overwrite and the adjoint reads."""
        for i in self.plan.values:
            self.saved[i] = np.array(as_numpy(self.leaves[i]))
        for i in self.plan.before:
            self.saved[i] = copy_of(self.leaves[i])

    def save_after(self) -> None:
        """After the launch: note versions, and copy arrays that have none."""
        plan, leaves = self.plan, self.leaves
        for i in plan.versions:
            self.versions[i] = leaves[i].version
        for i in plan.after:
            self.saved[i] = copy_of(leaves[i])
        if isinstance(plan.adjoint, Adjoint):
            for i in plan.adjoint.extrema:
                self.final[i] = copy_of(leaves[i])

    def backward(self, writers: Writers) -> None:
        adjoint = self.plan.adjoint
        if adjoint is None:
            return
        if isinstance(adjoint, KernelGradError):
            raise KernelGradError(f"{self.label}: {adjoint.message}", adjoint.loc, adjoint.remedy)
        for i, version in self.versions.items():
            if self.leaves[i].version != version:
                self._refuse_overwritten(i, writers)
        self._run(adjoint)
        if self.device.is_cpu:
            self.plan.make_native()

    def _run(self, adjoint: Adjoint) -> None:
        cotangents, extra = self._cotangents()
        saved = self._saved_for(adjoint)
        try:
            execute_adjoint(
                *(self.kernel, adjoint, self.dim, self.leaves, cotangents, saved, self.final)
            )
        except KernelArgumentError as error:
            message = f"{self.label}, backwards: {error.message}"
            raise KernelGradError(message, error.loc, error.remedy) from None
        for i, part in extra.items():
            add_to(self.leaves[i].grad, part)

    def _refuse_overwritten(self, i: int, writers: Writers) -> None:
        version, leaf = self.versions[i], self.leaves[i]
        later = [r.label for count, r in writers(leaf) if count > version]
        culprit = later[0] if later else "an assignment or a launch that was not recorded"
        raise KernelGradError(
            f"{self.label} needs '{self.kernel.leaves[i][0]}' as it was then, but "
            f"{culprit} has written to it since",
            whole_line(self.site),
            "write to another array there, or record with kc.Tape(keep_overwritten=True), "
            "which copies what is about to be overwritten",
        )

    def _cotangents(self) -> tuple[dict[int, Any], dict[int, Any]]:
        """An array per cotangent parameter, and the temporaries among them.

        A temporary is added to its gradient afterwards. It is used if another parameter has the
        same gradient, or if the gradient is on another device.
        """
        found: dict[int, Any] = {}
        extra: dict[int, Any] = {}
        taken: list[native.Span] = []
        # Written arrays come first: their cotangents are read and cleared in place.
        for i in self.plan.cotangents:
            leaf, (name, type_) = self.leaves[i], self.kernel.leaves[i]
            if i not in self.plan.wrt:
                assert isinstance(type_, ArrayType)
                found[i] = new_zeros(layout(leaf)[0], type_.dtype, self.device)
                continue
            grad = leaf.grad
            if grad is None:
                raise KernelGradError(
                    f"{self.label} was recorded with a gradient of '{name}', which is gone",
                    whole_line(self.site),
                    "leave requires_grad as it is until the backward pass is over",
                )
            span = grad.span
            is_shared = any(span.overlaps(other) for other in taken)
            is_read = not self.kernel.effects[i].writes
            if grad.device != self.device or (is_shared and is_read):
                extra[i] = found[i] = new_zeros(grad.extents, element_type(type_), self.device)
            else:
                found[i] = grad
                taken.append(span)
        return found, extra

    def _saved_for(self, adjoint: Adjoint) -> dict[int, Any]:
        """Saved arrays; those that the adjoint writes are copied, so that it can run again."""
        if self.saved and capture_sink() is not None:
            name, _ = self.kernel.leaves[min(self.saved)]
            raise KernelGradError(
                f"{self.label} needs a copy of what '{name}' held before it, which "
                "a replay of the captured backward pass would not have",
                whole_line(self.site),
                "run this Tape outside of the capture, or write to another array in that kernel",
            )
        return {
            i: copy_of(array) if i in adjoint.writes else array for i, array in self.saved.items()
        }


@dataclass(frozen=True, eq=False, slots=True)
class CopyRecord:
    """An assignment of array ``source``, or of constants, to ``target``."""

    target: Array
    source: Array | None
    site: SrcLoc | None

    @property
    def label(self) -> str:
        return f"the assignment at {as_text(self.site)}"

    @property
    def inputs(self) -> Sequence[Array]:
        return () if self.source is None else (self.source,)

    @property
    def outputs(self) -> Sequence[Array]:
        return (self.target,)

    cleared = outputs

    def name_of(self, array: Array) -> str:
        return "target" if array is self.target else "source"

    def backward(self, writers: Writers) -> None:
        target, source = self.target, self.source
        gradient = None if source is None else source.grad
        if target.grad is None:
            return
        if source is not None and gradient is not None and source.element != target.element:
            raise KernelGradError(
                f"{self.label} converts {source.element} to {target.element}, "
                "which has no gradient",
                whole_line(self.site),
                "convert it in a kernel",
            )
        pull(target.grad, gradient)


@dataclass(frozen=True, eq=False, slots=True)
class FuncRecord:
    """A function that the backward pass calls, and the arrays whose gradients it touches."""

    function: Callable[[], object]
    inputs: Sequence[Array]
    site: SrcLoc | None
    outputs: Sequence[Array] = ()

    @property
    def cleared(self) -> Sequence[Array]:
        return self.outputs

    @property
    def label(self) -> str:
        return f"the function recorded at {as_text(self.site)}"

    def name_of(self, array: Array) -> str:
        return "array"

    def backward(self, writers: Writers) -> None:
        self.function()


Record = LaunchRecord | CopyRecord | FuncRecord
# The version of an array's memory after each recorded write, and the record.
Writers = Callable[[Array], Sequence[tuple[int, Record]]]
# Records in order; a launch that native code recorded is a tuple.
Records = list[Any]


def record_at(records: Records, number: int) -> Record:
    """The record of that number; a tuple becomes a LaunchRecord."""
    found = records[number]
    if found.__class__ is tuple:
        (plan, _), dim, leaves, line, versions = found
        known = dict(zip(plan.versions, versions, strict=True))
        found = records[number] = LaunchRecord(plan, dim, leaves, line or None, versions=known)
    return found


class Gradients(dict[Array, Array]):
    """Gradients by their arrays, and by the structs that hold these."""

    def __getitem__(self, key: Any) -> Any:
        return self._of_struct(key) if isinstance(key, StructValue) else super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """The gradient of ``key``, or ``default``."""
        return self._of_struct(key) if isinstance(key, StructValue) else super().get(key, default)

    def _of_struct(self, struct: StructValue) -> StructValue:
        found = type(struct)()
        for name, member in struct.kernel_type.fields:
            value = getattr(struct, name)
            if isinstance(member, StructType):
                setattr(found, name, self._of_struct(value))
            elif isinstance(member, ArrayOf):
                setattr(found, name, super().get(value) if isinstance(value, Array) else None)
            else:
                setattr(found, name, value)
        return found
