"""The .out overload of operators: results are written to tensors that the caller gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import _C
from torch.autograd import forward_ad

from kernelcore.base.errors import KernelArgumentError, KernelGradError
from kernelcore.operators import AnyRank, Operation, evaluate
from torch_ext.check import check_arguments, leading_tensor
from torch_ext.dtype import dtype_to_torch
from torch_ext.mutation import repeats_elements, share_elements
from torch_ext.operator import TorchOperator

_TAGS = (torch.Tag.out,) if hasattr(torch.Tag, "out") else ()

_REMEDY = "leave out=... away, or give a new tensor"


def out_names(operation: Operation, taken: Sequence[str]) -> tuple[str, ...]:
    """The names of the results in the schema, which differ from the operands' names ``taken``."""
    count = operation.visible
    names = ["out"] if count == 1 else [f"out{j}" for j in range(count)]
    for j, name in enumerate(names):
        while names[j] in taken:
            names[j] = name = f"{name}_"
    return tuple(names)


class OutOverload:
    """The .out overload of an operator.

    Attributes:
        names: The keywords of the results.
        overload: What torch calls.
    """

    def __init__(
        self,
        operator: TorchOperator,
        library: torch.library.Library,
        params: Sequence[tuple[str, str]],
        tags: Sequence[torch.Tag],
    ) -> None:
        """Register it.

        Args:
            operator: The operator, whose functional overload is registered.
            library: What the namespace is open in.
            params: Type and name of each operand in torch's schema language.
            tags: Those of the functional overload.
        """
        self._operator = operator
        self._operation = operator.operation
        self.names = out_names(operator.operation, [name for _, name in params])
        namespace, base = operator.qualname.split("::")
        name = f"{base}.out"
        library.define(name + self._schema(params), tags=(*tags, *_TAGS))
        torch.library.register_fake(f"{namespace}::{name}", self._fake, lib=library)
        library.impl(name, self._write, "CPU")
        # Inductor takes what a tagged operator returns for new memory, and reuses that of the outs.
        for each in ("CUDA", "Functionalize"):
            library.impl(name, self._copy_functional, each)
        for above in ("Autograd", "ADInplaceOrView"):
            library.impl(name, self._above_backends, above)
        self.overload = getattr(getattr(torch.ops, namespace), base).out

    def __call__(self, args: Sequence[Any], out: Any) -> Any:
        """Write what the operator makes of ``args`` to ``out``, a tensor or one per result.

        Raises:
            KernelArgumentError: ``out`` is something else, or cannot take the results.
        """
        return self.overload(*args, **self.by_name(out))

    def by_name(self, out: Any) -> dict[str, Any]:
        """``out``, a tensor or one per result, as keywords."""
        count = len(self.names)
        outs = (out,) if count == 1 else out
        if not isinstance(outs, tuple | list) or len(outs) != count:
            raise self._error(0, f"expected a tuple of {count} tensors as out", _kind(out))
        for j, each in enumerate(outs):
            if not isinstance(each, torch.Tensor):
                raise self._error(j, "expected a tensor as out", _kind(each))
        return dict(zip(self.names, outs, strict=True))

    def _schema(self, params: Sequence[tuple[str, str]]) -> str:
        # Every result has an alias set of its own, named by letters.
        marks = [f"Tensor({chr(ord('a') + j)}!)" for j in range(len(self.names))]
        outs = ", ".join(f"{m} {n}" for m, n in zip(marks, self.names, strict=True))
        returned = marks[0] if len(marks) == 1 else f"({', '.join(marks)})"
        given = "".join(f"{kind} {name}, " for kind, name in params)
        return f"({given}*, {outs}) -> {returned}"

    def _above_backends(self, *args: Any, **outs: Any) -> Any:
        """The autograd rule: refuse gradients, and note that the outs change."""
        targets = tuple(outs[n] for n in self.names)
        self._check_gradients((*args, *targets))
        with _C._AutoDispatchBelowADInplaceOrView():
            returned = self.overload(*args, **outs)
        torch.autograd.graph.increment_version(targets)
        return returned

    def _fake(self, *args: Any, **outs: Any) -> Any:
        """The outs, if they fit."""
        return self._returned(self._checked(args, outs))

    def _write(self, *args: Any, **outs: Any) -> Any:
        """On the CPU: the kernel writes to outs that are contiguous, else to new memory."""
        targets = self._checked(args, outs)
        written = [t if t.is_contiguous() else t.new_empty(t.shape) for t in targets]
        self._operator.native.run(args, written)
        return self._returned(targets, written)

    def _copy_functional(self, *args: Any, **outs: Any) -> Any:
        """On devices and in graphs: new results, and copies of them."""
        targets = self._checked(args, outs)
        return self._returned(targets, self._operator.results(self._operator.inner(*args)))

    def _returned(self, targets: Sequence[torch.Tensor], made: Sequence[torch.Tensor] = ()) -> Any:
        """The value of the call: the outs, after copies of ``made`` to them."""
        for target, each in zip(targets, made, strict=False):
            if each is not target:
                target.copy_(each)
        return targets[0] if len(targets) == 1 else targets

    def _checked(self, args: Sequence[Any], outs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        """The outs in order, if they can take the results."""
        targets = tuple(outs[n] for n in self.names)
        check_arguments(self._operation, self._operator.tensor_values, args)
        self._resize_empty(args, targets)
        self._check_outs(args, targets)
        self._check_memory(args, targets)
        return targets

    def _shapes(self, args: Sequence[Any]) -> list[tuple[Any, ...]]:
        shapes = self._operation.shapes(args)
        return [evaluate(r.shape, shapes) for r in self._operation.outputs]

    def _resize_empty(self, args: Sequence[Any], outs: Sequence[torch.Tensor]) -> None:
        """Give outs without elements the shapes of the results, as torch does."""
        if not any(0 in [n for n in o.shape if isinstance(n, int)] for o in outs):
            return
        for out, result, shape in zip(
            outs, self._operation.outputs, self._shapes(args), strict=True
        ):
            is_fit = out.dtype == dtype_to_torch(result.type.dtype) and out.layout is torch.strided
            if is_fit and out.numel() == 0 and tuple(out.shape) != shape:
                out.resize_(shape)

    def _check_outs(self, args: Sequence[Any], outs: Sequence[torch.Tensor]) -> None:
        leader = leading_tensor(args)
        for j, (out, shape) in enumerate(zip(outs, self._shapes(args), strict=True)):
            dtype = self._operation.outputs[j].type.dtype
            wanted = f"expected an out of {dtype} and shape {tuple(shape)}"
            if out.layout is not torch.strided or out.is_nested:
                raise self._error(j, wanted, "one without strides or memory")
            if out.dtype != dtype_to_torch(dtype):
                raise self._error(j, wanted, f"one of {str(out.dtype).removeprefix('torch.')}")
            if tuple(out.shape) != tuple(shape):
                raise self._error(j, wanted, f"one of shape {tuple(out.shape)}")
            device = torch.device("cpu") if leader is None else leader.device
            if out.device != device:
                raise self._error(j, f"expected an out on {device}", f"one on {out.device}")

    def _check_memory(self, args: Sequence[Any], outs: Sequence[torch.Tensor]) -> None:
        for j, out in enumerate(outs):
            if not out.is_contiguous() and repeats_elements(out):
                raise self._error(
                    j, "expected an out whose elements are apart", "several that share memory"
                )
            if any(_overlap(out, a) for a in args):
                raise self._error(
                    j, "expected an out apart from all arguments", "one that shares their memory"
                )
            if any(_overlap(out, o) for o in outs[:j]):
                raise self._error(j, "expected outs apart from each other", "two that share memory")

    def _check_gradients(self, tensors: Sequence[Any]) -> None:
        given = [t for t in tensors if isinstance(t, torch.Tensor)]
        if torch.is_grad_enabled() and any(t.requires_grad for t in given):
            found = "one of the arguments requires grad"
        elif forward_ad._current_level >= 0 and any(
            forward_ad.unpack_dual(t).tangent is not None for t in given
        ):
            found = "one of the arguments has a tangent"
        else:
            return
        raise KernelGradError(
            f"{self._operation.func.name}(): functions with out=... arguments don't support "
            f"automatic differentiation, but {found}",
            self._operation.func.loc,
            "leave out=... away, or call it under torch.no_grad()",
        )

    def _error(self, index: int, expected: str, found: str) -> KernelArgumentError:
        func = self._operation.func
        param = self._operation.param_of_result(index)
        return KernelArgumentError(
            f"{func.name}(): argument '{func.params[param].name}': {expected}, found {found}",
            func.param_loc(param),
            _REMEDY,
        )


def flat_outs(any_rank: AnyRank, outs: Sequence[Any], shape: Sequence[Any]) -> list[Any]:
    """``outs``, for results of ``shape`` where their rank is any, as the operator takes them.

    It sees one dimension: a view of an out, or new memory for one whose elements have gaps.

    Raises:
        KernelArgumentError: An out has another shape, or elements that share memory.
    """
    targets: list[Any] = []
    for j, (out, components) in enumerate(zip(outs, any_rank.results, strict=True)):
        if components is None or not isinstance(out, torch.Tensor):
            targets.append(out)
            continue
        wanted = (*shape, *components)
        if tuple(out.shape) != wanted and out.layout is torch.strided and out.numel() == 0:
            out.resize_(wanted)
        problem = ""
        if tuple(out.shape) != wanted:
            problem = f"expected an out of shape {wanted}, found one of shape {tuple(out.shape)}"
        elif torch.compiler.is_compiling():
            pass  # Graphs have no memory yet.
        elif not out.is_contiguous() and repeats_elements(out):
            problem = "expected an out whose elements are apart, found several that share memory"
        elif any(_overlap(out, other) for other in outs[:j]):
            problem = "expected outs apart from each other, found two that share memory"
        if problem:
            raise KernelArgumentError(
                f"{any_rank.function}(): out {j}: {problem}", any_rank.loc, _REMEDY
            )
        target = out if out.is_contiguous() else out.new_empty(out.shape)
        targets.append(target.view((math.prod(shape), *components)))
    return targets


def _overlap(out: torch.Tensor, other: Any) -> bool:
    if not isinstance(other, torch.Tensor):
        return False
    is_alias = _C._is_alias_of(out, other)  # pyright: ignore[reportAttributeAccessIssue]
    return is_alias and share_elements(out, other)


def _kind(given: object) -> str:
    if isinstance(given, tuple | list):
        return f"{len(given)} of them"
    return f"an object of type {type(given).__name__}"
