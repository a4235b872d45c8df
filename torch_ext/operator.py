"""TorchOperator: one Operation as a torch operator, which is registered when it is first needed.

The public operator has the autograd and the vmap rule; the inner one has neither, so that below
autograd, and in compiled graphs, nothing stands before native code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import _C
from torch._ops import OpOverload
from torch.autograd import forward_ad

from kernelcore.operators import (
    MAX_GRID_DIMS,
    Fuse,
    Operation,
    cached_property,
    evaluate,
    warn_of_compiled,
)
from torch_ext import derivation, native
from torch_ext.check import PLAIN_TENSORS, check_arguments, leading_tensor
from torch_ext.derivation import Derivation
from torch_ext.dtype import dtype_to_torch


class Origin(NamedTuple):
    """Where an operator comes from.

    Attributes:
        root: The name of the operation that was not derived.
        derivations: What was derived of it.
        tensor_values: Whether scalars are tensors.
        fuse: Whether Inductor computes it in its own code.
    """

    root: str
    derivations: tuple[Derivation, ...]
    tensor_values: bool
    fuse: Fuse


class Derived(NamedTuple):
    """An operator, or None if all is zero; and what its results are derivatives of."""

    operator: TorchOperator | None
    produced: tuple[int, ...]


class Functions(NamedTuple):
    """The autograd functions of an operator.

    Attributes:
        general: Works on one level of transforms, as autograd kernels of built-in operators do.
        plain: For calls that native code takes, outside of transforms; native itself, but for
            derivatives of the backward.
    """

    general: Any
    plain: Any


class Registrars(NamedTuple):
    """Functions of modules above this one that register an operator or derive another.

    Attributes:
        derive: The operator of a derived operation.
        public: Registers the operator with autograd and vmap.
        inner: Registers the operator without.
        out: Registers the overload that writes to tensors of the caller.
        functions: The autograd functions.
    """

    derive: Callable[[Operation, Origin], TorchOperator]
    public: Callable[[TorchOperator], OpOverload]
    inner: Callable[[TorchOperator], OpOverload]
    out: Callable[[TorchOperator], Any]
    functions: Callable[[TorchOperator], Functions]


class Batch(NamedTuple):
    """How an operator runs on tensors that have the batch at certain axes.

    Attributes:
        operator: That of all instances, with the batch in front.
        moved: Operands that have the batch elsewhere, and where.
        repeated: Operands without the batch of which every instance needs its own.
    """

    operator: TorchOperator
    moved: tuple[tuple[int, int], ...]
    repeated: tuple[int, ...]


class TorchOperator:
    """An operation that torch's dispatcher runs.

    Attributes:
        operation: What it computes.
        origin: Where it comes from.
        tensor_values: Whether scalar operands are tensors without dimensions, not numbers.
        qualname: ``namespace::name`` of the public operator.
        native: The native description.
    """

    def __init__(
        self, operation: Operation, origin: Origin, qualname: str, registrars: Registrars
    ) -> None:
        self.operation = operation
        self.origin = origin
        self.tensor_values = origin.tensor_values
        self.qualname = qualname
        self._registrars = registrars
        self._derived: dict[Derivation, Derived] = {}
        self._batches: dict[tuple[int | None, ...], Batch] = {}
        self.native = native.described(operation, self.tensor_values)

    def __repr__(self) -> str:
        return f"<torch operator {self.qualname}>"

    @property
    def inner_qualname(self) -> str:
        """``namespace::name`` of the inner operator."""
        return f"{self.qualname}_k"

    @cached_property
    def public(self) -> OpOverload:
        """The operator with autograd and vmap."""
        return self._registrars.public(self)

    @cached_property
    def inner(self) -> OpOverload:
        """The operator without."""
        return self._registrars.inner(self)

    @cached_property
    def out(self) -> Any:
        """The overload that writes to tensors of the caller."""
        return self._registrars.out(self)

    @cached_property
    def functions(self) -> Functions:
        """The autograd functions."""
        return self._registrars.functions(self)

    def derived(self, derivation: Derivation) -> Derived:
        """The operator of what ``derivation`` makes of this one's operation.

        Raises:
            KernelGradError: The kernel has no exact derivative.
        """
        found = self._derived.get(derivation)
        if found is None:
            made = derivation.apply(self.operation)
            operation, produced = made.operation, made.produced
            origin = self.origin._replace(derivations=(*self.origin.derivations, derivation))
            operator = self._registrars.derive(operation, origin) if produced else None
            found = self._derived[derivation] = Derived(operator, produced)
        return found

    @cached_property
    def entry(self) -> Callable[..., Any]:
        """The operator; native code calls it directly where torch's dispatcher is not needed."""

        def dispatched(*args: Any) -> Any:
            is_plain = not (
                _C.is_grad_enabled()
                or forward_ad._current_level >= 0
                or _C._are_functorch_transforms_active()
                or _C._is_any_autocast_enabled()
            )
            return self.direct(*args) if is_plain else self.public(*args)

        name = self.qualname.split("::")[1]
        return native.fast_entry(self.native, name, self.differentiated, dispatched)

    @cached_property
    def direct(self) -> Callable[..., Any]:
        """The operator below autograd; native code runs it directly where it can."""

        def dispatched(*args: Any) -> Any:
            with _C._AutoDispatchBelowAutograd():
                return self.inner(*args)

        return native.fast_entry(self.native, self.inner_qualname, None, dispatched)

    @property
    def differentiated(self) -> Callable[..., Any]:
        """A call on plain tensors, some of which require grad, outside of torch.func."""
        return self.functions.plain.apply

    def results(self, returned: Any) -> tuple[torch.Tensor, ...]:
        """``returned``, the value of a call, as a tuple."""
        return (returned,) if self.operation.visible == 1 else tuple(returned)

    def prepare(self, args: Sequence[Any]) -> None:
        """Make what a device needs to run the operator on ``args``.

        Raises:
            KernelError: It has no code there, or an earlier run there failed.
        """
        if _C._len_torch_dispatch_stack() or _C._are_functorch_transforms_active():
            return  # What looks like a tensor may have no memory.
        for arg in args:
            if type(arg) in PLAIN_TENSORS and arg.is_cuda:
                self.native.prepare(arg.device.index)
                return

    def fake(self, *args: Any) -> Any:
        """Results without contents, of the shapes and strides that native code makes."""
        check_arguments(self.operation, self.tensor_values, args)
        if self.operation.kernel is not None:
            name = self.operation.func.name
            warn_of_compiled(name, "a graph of torch", "call it outside of torch.compile")
        tensor = leading_tensor(args)
        # What has no tensor to tell a device runs on the CPU, whatever torch's default is.
        empty = partial(torch.empty, device="cpu") if tensor is None else tensor.new_empty
        shapes = self.operation.shapes(args)
        results = tuple(
            empty(evaluate(r.shape, shapes), dtype=dtype_to_torch(r.type.dtype))
            for r in self.operation.outputs
        )
        return results[0] if len(results) == 1 else results

    def batch(
        self,
        size: int,
        in_dims: Sequence[int | None],
        args: Sequence[Any],
        callable_of: Callable[[TorchOperator], Callable[..., Any]],
    ) -> Any:
        """The vmap rule: one more launch axis, an instance of the batch per index.

        Results have the batch in front. ``callable_of`` gives what runs an operator on unwrapped
        tensors: the public overload or the fast entry.
        """
        if len(self.operation.grid) >= MAX_GRID_DIMS:
            return self.batch_in_turn(size, in_dims, args, callable_of(self))
        axes = tuple(in_dims)
        batch = self._batches.get(axes)
        if batch is None:
            batch = self._batches[axes] = self._batch_of(axes)
        given = list(args)
        for k, axis in batch.moved:
            given[k] = given[k].movedim(axis, 0)
        for k in batch.repeated:
            given[k] = given[k].expand(size, *given[k].shape)
        return callable_of(batch.operator)(*given)

    def _batch_of(self, axes: tuple[int | None, ...]) -> Batch:
        """How operands run that have the batch at ``axes``; None stands for one without it."""
        batched = {k for k, axis in enumerate(axes) if axis is not None}
        repeated = tuple(k for k in self.operation.owners() if k not in batched)
        operator, _ = self.derived(derivation.batch(tuple(sorted(batched.union(repeated)))))
        assert operator is not None
        return Batch(operator, tuple((k, axis) for k, axis in enumerate(axes) if axis), repeated)

    def batch_in_turn(
        self,
        size: int,
        in_dims: Sequence[int | None],
        args: Sequence[Any],
        call: Callable[..., Any],
    ) -> Any:
        """A batch beyond the launch dimensions that a kernel can have: a call per instance."""
        rows = [a.movedim(d, 0) if d else a for a, d in zip(args, in_dims, strict=True)]
        batched = {k for k, d in enumerate(in_dims) if d is not None}

        def instance(index: int) -> list[Any]:
            return [r[index] if k in batched else r for k, r in enumerate(rows)]

        def blank() -> list[Any]:
            return [r.new_empty(r.shape[1:]) if k in batched else r for k, r in enumerate(rows)]

        found = [self.results(call(*instance(i))) for i in range(size)]
        made = found or [self.results(self.fake(*blank()))]
        stacked = tuple(torch.stack(each)[:size] for each in zip(*made, strict=True))
        return stacked[0] if len(stacked) == 1 else stacked
