"""LaunchPlan: how a Tape records the launches of a kernel with arguments of given kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelcore.base import native
from kernelcore.base.errors import KernelArgumentError, KernelGradError
from kernelcore.language.types import Scalar
from kernelcore.launch.adjoint_kernel import Adjoint, Part
from kernelcore.launch.adjoint_launch import adjoint_memory
from kernelcore.launch.kernel import Kernel
from kernelcore.passes.autodiff.activity import is_float
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.device import CPU

# Kinds of arguments: a number, another library's array, a data array without or with a gradient.
NUMBER, OTHER, CONSTANT, TRACKED = b"noct"
native.set_argument_types(Array, np.generic)


@dataclass(frozen=True, eq=False, slots=True)
class LaunchPlan:
    """How to record a launch; all tuples hold parameters of the IR.

    Attributes:
        kernel: The kernel, which is not generic.
        kinds: The kind of each argument, as ``native.argument_kinds`` gives it.
        wrt: Parameters whose arrays require gradients.
        adjoint: The adjoint for these, or the error that there is none; None if not needed.
        inputs: Data arrays that are loaded.
        outputs: Data arrays that are written.
        others: Other libraries' arrays that are written.
        untracked: Floats that are written and have no gradient.
        values: Arrays that stand for a value, which is saved.
        before: Arrays that the adjoint reads and the launch may overwrite.
        after: Other libraries' arrays that the adjoint reads; they have no version.
        versions: Data arrays that the adjoint reads.
        cotangents: Parameters with cotangents; written arrays come first.
        order: The parameters that the adjoint takes, and those whose gradients it takes after
            these; None if it takes anything else.
        is_checked_always: Whether ``_tracked`` may refuse arguments of these kinds.
    """

    kernel: Kernel
    kinds: bytes
    wrt: tuple[int, ...]
    adjoint: Adjoint | KernelGradError | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    others: tuple[int, ...]
    untracked: tuple[int, ...]
    values: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    versions: tuple[int, ...]
    cotangents: tuple[int, ...]
    order: tuple[tuple[int, ...], tuple[int, ...]] | None
    is_checked_always: bool

    def make_native(self) -> None:
        """Let native code record such launches on the CPU, if it needs the arguments only."""
        known = self.kernel.tape_plans.get(self.kinds)
        if known is None or known[1] is not None:
            return
        needed = (self.others, self.values, self.before, self.after)
        is_detached = bool(self.untracked and self.wrt)
        is_known = self.adjoint is None or self.order is not None
        if any(needed) or is_detached or self.is_checked_always or not is_known:
            return
        executable = self.kernel.plain_executable
        if executable is None or not executable.has_arrays:
            return
        adjoint = self.adjoint if isinstance(self.adjoint, Adjoint) else None
        native_plan = native.NativePlan(
            executable.signature,
            None if adjoint is None else adjoint_memory(self.kernel, adjoint, CPU),
            self.inputs,
            self.outputs,
            self.versions,
            *(self.order or ((), ())),
        )
        self.kernel.tape_plans[self.kinds] = self, native_plan


def plan_of(kernel: Kernel, leaves: Sequence[Any]) -> LaunchPlan:
    """The plan of a launch of ``kernel``, which is not generic.

    Raises:
        KernelArgumentError: An argument has a gradient that cannot be computed.
    """
    kinds = native.argument_kinds(tuple(leaves))
    if kinds in kernel.tape_plans:
        known: LaunchPlan = kernel.tape_plans[kinds][0]
        if known.is_checked_always:
            _tracked(kernel, leaves)
        return known
    plan = _new_plan(kernel, kinds, _tracked(kernel, leaves))
    if not isinstance(plan.adjoint, KernelGradError):
        kernel.tape_plans[kinds] = plan, None
    return plan


def is_tracked(leaf: Any) -> bool:
    """Whether ``leaf`` is an array that requires a gradient.

    Raises:
        KernelArgumentError: It is a tensor of torch that does.
    """
    if isinstance(leaf, Array):
        return leaf.requires_grad
    if not getattr(leaf, "requires_grad", False):
        return False
    raise KernelArgumentError(
        f"a Tape computes no gradients of a {type(leaf).__name__} of another library",
        remedy="make an operator of the kernel with torch_op, or pass tensor.detach()",
    )


def _tracked(kernel: Kernel, leaves: Sequence[Any]) -> tuple[int, ...]:
    """The parameters whose arguments require gradients; impossible gradients are refused."""
    found: list[int] = []
    for i, (param, leaf) in enumerate(zip(kernel.func.params, leaves, strict=True)):
        if not is_float(param) or not is_tracked(leaf):
            continue
        if isinstance(param.type, Scalar) and leaf.element != param.type:
            # The conversion has no gradient.
            raise KernelArgumentError(
                f"{kernel.name}(): argument '{param.name}': expected a {param.type} value, "
                f"found an array of {leaf.element} with a gradient",
                kernel.func.param_loc(i),
                f"make it with kc.array(..., dtype=kc.{param.type}, requires_grad=True)",
            )
        found.append(i)
    return tuple(found)


def _new_plan(kernel: Kernel, kinds: bytes, wrt: tuple[int, ...]) -> LaunchPlan:
    params, does = kernel.func.params, kernel.effects
    indices = range(len(params))
    values = [i for i in indices if isinstance(params[i].type, Scalar)]
    arrays = [i for i in indices if kinds[i] in (CONSTANT, TRACKED)]
    written = [i for i in indices if does[i].writes]
    adjoint = _adjoint(kernel, wrt) if any(i in written for i in wrt) else None
    kept = [i for i in values if kinds[i] != NUMBER]
    before: list[int] = []
    reads: list[int] = []
    if isinstance(adjoint, Adjoint):
        used = adjoint.reads | adjoint.writes | set(adjoint.extrema)
        # Other libraries' arrays have no versions.
        before = [i for i in sorted(used) if (does[i].loads if i in written else i not in arrays)]
        reads = sorted(adjoint.reads - {*before, *kept})
    return LaunchPlan(
        kernel,
        kinds,
        wrt,
        adjoint,
        inputs=tuple(i for i in arrays if does[i].loads or i in values),
        outputs=tuple(i for i in arrays if i in written),
        others=tuple(i for i in written if i not in arrays),
        untracked=tuple(i for i in written if is_float(params[i]) and i not in wrt),
        values=tuple(kept),
        before=tuple(before),
        after=tuple(i for i in reads if i not in arrays),
        versions=tuple(i for i in reads if i in arrays),
        cotangents=_cotangents(adjoint, written),
        order=_order(adjoint, wrt),
        is_checked_always=any(
            is_float(params[i]) and (kinds[i] == OTHER or (i in values and kinds[i] == TRACKED))
            for i in indices
        ),
    )


def _adjoint(kernel: Kernel, wrt: tuple[int, ...]) -> Adjoint | KernelGradError:
    try:
        return kernel.adjoint(wrt, ())
    except KernelGradError as error:
        return error


def _cotangents(
    adjoint: Adjoint | KernelGradError | None, written: Sequence[int]
) -> tuple[int, ...]:
    if not isinstance(adjoint, Adjoint):
        return ()
    return tuple(sorted(adjoint.cotangents(), key=lambda i: i not in written))


def _order(
    adjoint: Adjoint | KernelGradError | None, wrt: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    if not isinstance(adjoint, Adjoint) or adjoint.extrema:
        return None
    primals = tuple(i for i, part in adjoint.order if part is Part.PRIMAL)
    taken = tuple(adjoint.cotangents())
    order = [*((i, Part.PRIMAL) for i in primals), *((i, Part.COTANGENT) for i in taken)]
    return (primals, taken) if order == [*adjoint.order] and {*taken} <= {*wrt} else None
