"""LaunchPlan: the facts by which a Tape records launches with arguments of given kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelcore.base import native
from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelArgumentError, KernelGradError
from kernelcore.language.types import Scalar, element_type
from kernelcore.launch.adjoint_kernel import Adjoint
from kernelcore.launch.adjoint_launch import adjoint_memory
from kernelcore.launch.dispatch import Dims, single_axes
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.device import CPU

# Kinds of arguments: a number, another library's array, a data array without or with a gradient.
NUMBER, OTHER, CONSTANT, TRACKED = b"noct"
native.set_argument_types(Array, np.generic)


@dataclass(frozen=True, eq=False, slots=True)
class LaunchPlan:
    """The facts by which a Tape records a launch; tuples hold indices of IR parameters.

    Attributes:
        kernel: The kernel, which is not generic.
        kinds: The kind of each argument, as ``native.argument_kinds`` gives it.
        wrt: Parameters whose arrays require gradients.
        adjoint: The adjoint for these, or the error that there is none; None if not needed.
        inputs: Data arrays that are loaded.
        outputs: Data arrays that are written.
        others: Other libraries' arrays that are written.
        untracked: Floats that are written and have no gradient.
        values: Values that are given by arrays, and saved.
        before: Arrays that the adjoint reads and the launch may overwrite.
        after: Other libraries' arrays that the adjoint reads; they have no version.
        versions: Data arrays that the adjoint reads.
        cotangents: Parameters with cotangents; written arrays come first.
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
    is_checked_always: bool

    def make_native(self) -> None:
        """Enable native recording on the CPU, if the adjoint needs nothing but the arguments."""
        known = self.kernel.tape_plans.get(self.kinds)
        if known is None or known[1] is not None or isinstance(self.adjoint, KernelGradError):
            return
        executable, adjoint = self.kernel.plain_executable, self.adjoint
        if any((self.others, self.values, self.before, self.after, self.is_checked_always)):
            return
        if (self.untracked and self.wrt) or executable is None or not executable.has_arrays:
            return
        # Every cotangent is a gradient, and nothing else follows the parameters of the primal.
        if adjoint is not None and (adjoint.extrema or not {*self.cotangents} <= {*self.wrt}):
            return
        native_plan = native.NativePlan(
            executable.signature,
            None if adjoint is None else adjoint_memory(self.kernel, adjoint, CPU),
            self.inputs,
            self.outputs,
            self.versions,
            [] if adjoint is None else adjoint.primals,
            [] if adjoint is None else adjoint.cotangents(),
        )
        self.kernel.tape_plans[self.kinds] = self, native_plan


def plan_of(kernel: Kernel, leaves: Sequence[Any], dim: Dims) -> LaunchPlan:
    """The plan of a launch of ``kernel``, which is not generic, over ``dim``.

    Raises:
        KernelArgumentError: An argument has a gradient that cannot be computed.
    """
    kinds = native.argument_kinds(tuple(leaves))
    single = single_axes(kernel, dim)
    known: LaunchPlan | None = kernel.tape_plans.get(kinds, (None, None))[0]
    known = known or kernel.single_tape_plans.get((kinds, single))
    if known is not None:
        if known.is_checked_always:
            _tracked(kernel, leaves)
        return known
    wrt = _tracked(kernel, leaves)
    plan = _new_plan(kernel, kinds, wrt, frozenset())
    if not isinstance(plan.adjoint, KernelGradError):
        kernel.tape_plans[kinds] = plan, None
    elif single:
        plan = _new_plan(kernel, kinds, wrt, single)
        if not isinstance(plan.adjoint, KernelGradError):
            kernel.single_tape_plans[kinds, single] = plan
    return plan


def _tracked(kernel: Kernel, leaves: Sequence[Any]) -> tuple[int, ...]:
    """The parameters whose arguments require gradients.

    Raises:
        KernelArgumentError: One is a tensor of torch, or a value of another type.
    """
    found: list[int] = []
    for i, ((name, type_), leaf) in enumerate(zip(kernel.leaves, leaves, strict=True)):
        if not element_type(type_).is_float or not getattr(leaf, "requires_grad", False):
            continue
        if not isinstance(leaf, Array):
            raise KernelArgumentError(
                f"a Tape computes no gradients of a {type(leaf).__name__} of another library",
                remedy="make an operator of the kernel with torch_op, or pass tensor.detach()",
            )
        if isinstance(type_, Scalar) and leaf.element != type_:
            # The conversion has no gradient.
            raise KernelArgumentError(
                f"{kernel.name}(): argument '{name}': expected a {type_} value, "
                f"found an array of {leaf.element} with a gradient",
                kernel.func.param_loc(i),
                f"make it with kc.array(..., dtype=kc.{type_}, requires_grad=True)",
            )
        found.append(i)
    return tuple(found)


def _new_plan(
    kernel: Kernel, kinds: bytes, wrt: tuple[int, ...], single: frozenset[int]
) -> LaunchPlan:
    types, does = [t for _, t in kernel.leaves], kernel.effects
    indices = range(len(types))
    values = [i for i in indices if isinstance(types[i], Scalar)]
    floats = [i for i in indices if element_type(types[i]).is_float]
    arrays = [i for i in indices if kinds[i] in (CONSTANT, TRACKED)]
    written = [i for i in indices if does[i].writes]
    kept = [i for i in values if kinds[i] != NUMBER]
    adjoint: Adjoint | KernelGradError | None = None
    before: list[int] = []
    reads: list[int] = []
    cotangents: list[int] = []
    # Any array may be the one at an address.
    if (
        any(i in written for i in wrt)
        or kernel.at_addresses.writes
        or (wrt and kernel.at_addresses.loads)
    ):
        try:
            adjoint = kernel.adjoint(wrt, (), single)
        except KernelGradError as error:
            adjoint = error
        else:
            used = adjoint.reads | adjoint.writes | set(adjoint.extrema)
            # Other libraries' arrays have no versions.
            before = [
                i for i in sorted(used) if (does[i].loads if i in written else i not in arrays)
            ]
            reads = sorted(adjoint.reads - {*before, *kept})
            cotangents = sorted(adjoint.cotangents(), key=lambda i: i not in written)
    return LaunchPlan(
        kernel,
        kinds,
        wrt,
        adjoint,
        inputs=tuple(i for i in arrays if does[i].loads or i in values),
        outputs=tuple(i for i in arrays if i in written),
        others=tuple(i for i in written if i not in arrays),
        untracked=tuple(i for i in written if i in floats and i not in wrt),
        values=tuple(kept),
        before=tuple(before),
        after=tuple(i for i in reads if i not in arrays),
        versions=tuple(i for i in reads if i in arrays),
        cotangents=tuple(cotangents),
        is_checked_always=any(
            kinds[i] == OTHER or (i in values and kinds[i] == TRACKED) for i in floats
        ),
    )
