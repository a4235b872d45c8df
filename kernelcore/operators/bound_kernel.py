"""BoundKernel: a kernel under a contract: the operation, its arguments and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np

from kernelcore.base.dataclass import dataclass
from kernelcore.language.types import ArrayOf
from kernelcore.launch.kernel import Kernel
from kernelcore.operators.any_rank import AnyRank
from kernelcore.operators.arguments import Arguments, ArgumentTree
from kernelcore.operators.fusion import Arithmetic, require_fusable
from kernelcore.operators.operation import Operation
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.operators.spec import Declaration, Spec, leaves_of, typed_leaves

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class ResultLeaves:
    """The leaves of results.

    Attributes:
        outputs: Those of outputs.
        in_out: Those of in-out parameters that the kernel writes.
        read: Fields of in-out structs that stay as they are given.
    """

    outputs: tuple[str, ...]
    in_out: tuple[str, ...]
    read: tuple[str, ...]


def result_leaves(kernel: Kernel, outputs: Sequence[str], in_out: Sequence[str]) -> ResultLeaves:
    """The leaves of the results ``outputs`` and ``in_out``, parameters or leaves of ``kernel``."""
    names = [p.name for p in kernel.func.params]
    written = {n for n, effect in zip(names, kernel.effects, strict=True) if effect.writes}
    made: list[str] = []
    updated: list[str] = []
    read: list[str] = []
    for parameter, leaves in typed_leaves(kernel).items():
        is_updated = not written.isdisjoint(leaves)
        for leaf in leaves:
            if parameter in outputs or leaf in outputs:
                made.append(leaf)
            elif leaf in in_out:
                updated.append(leaf)
            elif parameter in in_out:
                (read if is_updated and leaf not in written else updated).append(leaf)
    return ResultLeaves(tuple(made), tuple(updated), tuple(read))


@dataclass(frozen=True, slots=True)
class BoundKernel:
    """A kernel that is not generic, under a contract.

    Attributes:
        kernel: The kernel.
        spec: The contract, which names the results.
        operation: What a call computes.
        leaves: The leaves of its results.
        arguments: How calls give the operands.
        any_rank: The arguments and results of the operation that are arrays of any rank.
        results: One tree per result, in the order of the parameters.
        sources: Per leaf of the results whether the operation makes it, and the result that it is,
            or the operand, which the kernel only reads.
        remake: The same operation of another version of the kernel.
    """

    kernel: Kernel
    spec: Spec
    operation: Operation
    leaves: ResultLeaves
    arguments: Arguments
    any_rank: AnyRank | None
    results: tuple[ArgumentTree, ...]
    sources: tuple[tuple[bool, int], ...]
    remake: Callable[[Kernel], Operation]

    @property
    def is_direct(self) -> bool:
        """Whether each result of a call is one result of the operation."""
        return all(not tree.parts for tree in self.results)

    @property
    def needs_operands(self) -> bool:
        """Whether a leaf of a result is an operand."""
        return not all(is_made for is_made, _ in self.sources)

    def unflatten(self, made: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
        """The results, of those of the operation and its operands; a struct is a dictionary."""
        found = [made[i] if is_made else operands[i] for is_made, i in self.sources]
        return tuple(tree.unflatten(found) for tree in self.results)

    def restored(self, made: Sequence[Any], shape: tuple[Any, ...] | None) -> Sequence[Any]:
        """The results of the operation, those of any rank with the ``shape`` of arguments."""
        return made if self.any_rank is None else self.any_rank.restore(made, shape)


def bound_kernel(kernel: Kernel, spec: Spec) -> BoundKernel:
    """``kernel``, which is not generic, under ``spec``, which names results and has no callables.

    Raises:
        KernelArgumentError: The parameters are not as ``spec`` says.
    """
    outputs, sizes = spec.outputs or (), spec.sizes
    launch_dims: Any = spec.launch_dims
    leaves = result_leaves(kernel, outputs, spec.in_out)
    shapes: Any = spec.output_dims
    if isinstance(shapes, Mapping):
        shapes = {
            leaf: shape
            for name, shape in cast("Mapping[str, Any]", shapes).items()
            for leaf in (leaves_of(kernel, (name,)) if name in outputs else (name,))
        }

    def remake(version: Kernel) -> Operation:
        return kernel_operation(version, leaves.outputs, leaves.in_out, launch_dims, shapes, sizes)

    operation = remake(kernel)
    require_fusable(operation, spec.fuse, Arithmetic())
    made = {r.name: (True, i) for i, r in enumerate(operation.outputs)}
    same = {o.name: (False, i) for i, o in enumerate(operation.operands) if o.name in leaves.read}
    names = [p.name for p in kernel.func.params if p.name in made or p.name in same]
    typed = [(p.name, p.type) for p in kernel.parameters if p.type is not None]
    arguments = Arguments.of_operation(operation, kernel.parameters, spec.defaults, sizes)
    return BoundKernel(
        kernel,
        spec,
        operation,
        leaves,
        arguments,
        AnyRank.of(kernel.name, kernel.parameters, arguments.names, list(made), arguments.leaves),
        ArgumentTree.of_all(typed, names),
        tuple((made | same)[name] for name in names),
        remake,
    )


def _number_of(arg: Any) -> Any:
    """``arg``, or the number that it is where it is a NumPy array without dimensions."""
    return arg[()] if isinstance(arg, np.ndarray) and arg.ndim == 0 else arg  # pyright: ignore


# As many versions as a kernel keeps of itself.
_MOST_VERSIONS = 16


class BoundKernels(Generic[Made]):
    """What is made of a kernel under a contract, which is bound as calls need it.

    It is bound once a version and, if it is generic, once a choice of types.

    Attributes:
        arguments: How calls give the operands; one value a parameter of a generic kernel.
    """

    def __init__(
        self,
        kernel: Kernel,
        spec: Spec,
        make: Callable[[BoundKernel], Made],
        sample: Callable[[Any], Any] = _number_of,
    ) -> None:
        """It is bound at once unless it is generic.

        Args:
            kernel: The kernel.
            spec: The contract, which names the results and has no callables.
            make: What is made of the bound kernel.
            sample: The number that an array without dimensions stands for; other values as they
                are.
        """
        self._kernel = kernel
        self._spec = spec
        self._make = make
        self._sample = sample
        self._known: dict[Kernel, tuple[BoundKernel, Made]] = {}
        if not kernel.is_generic:
            bound, _ = self._find({})
            self.arguments, self._any_rank = bound.arguments, bound.any_rank
            return
        self._given = [p for p in kernel.parameters if p.name not in (spec.outputs or ())]
        names = (*(p.name for p in self._given), *spec.sizes)
        loc = Declaration.of_kernel(kernel).loc
        self.arguments = Arguments.of_names(kernel.name, loc, names, spec.defaults)
        self._any_rank = AnyRank.of(kernel.name, kernel.parameters, names, ())

    def of(self, given: Mapping[str, Any]) -> Made:
        """What is made for arguments by name, which count if the kernel is generic."""
        return self._find(given)[1]

    def _find(self, given: Mapping[str, Any]) -> tuple[BoundKernel, Made]:
        kernel = self._kernel.for_inputs(given)
        found = self._known.get(kernel)
        if found is None:
            bound = bound_kernel(kernel, self._spec)
            found = bound, self._make(bound)
            if not self._kernel.is_generic and len(self._known) >= _MOST_VERSIONS:
                self._known.pop(next(iter(self._known)), None)
            self._known[kernel] = found
        return found

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Made, list[Any], tuple[Any, ...] | None]:
        """What is made for a call, one value per operand, and the shape of arrays of any rank.

        Raises:
            KernelArgumentError: An argument is missing, unknown, given twice, or lacks a field.
        """
        shape = None
        if self._any_rank is not None:
            args, kwargs, shape = self._any_rank.flatten(args, kwargs)
        named: dict[str, Any] = {}
        if self._kernel.is_generic:
            args, kwargs = self.arguments.bind(args, kwargs), {}
            for p, arg in zip(self._given, args, strict=False):
                named[p.name] = arg if isinstance(p.wanted, ArrayOf) else self._sample(arg)
        bound, made = self._find(named)
        return made, bound.arguments.bind(args, kwargs), shape
