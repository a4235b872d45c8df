"""Derivatives of an operator in torch's autograd, at any order and below any transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import _C
from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue]
from torch.autograd import forward_ad
from torch.autograd.function import Function, _SingleLevelFunction

from kernelcore import ArrayType
from kernelcore.base.errors import KernelGradError
from kernelcore.operators import (
    Operation,
    TieWeights,
    copied_results,
    derive,
    element_type,
    evaluate,
    extremum_operations,
    find_ties,
    saving,
)
from torch_ext import derivation, native
from torch_ext.dtype import dtype_to_torch
from torch_ext.graph_marks import opaque
from torch_ext.operator import Functions, TorchOperator


def make_functions(operator: TorchOperator) -> Functions:
    """The autograd functions of ``operator``."""
    rules = _Rules(operator)

    # Functions of their own, since compiled autograd follows no methods; and it does not look into
    # the second, but records which operators that calls with fake tensors.
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Any:
        if is_compiling():
            mark()
        return pull(*ctx.call, ctx.saved_tensors, cotangents)

    def pull(*args: Any) -> Any:
        return rules.pull(*args)

    mark, is_compiling = opaque(pull), torch.compiler.is_compiling
    name = operator.operation.func.name
    shared = {
        "backward": staticmethod(backward),
        # Compiled autograd asks for what autograd.Function has and its base does not.
        "_compiled_autograd_key": staticmethod(Function._compiled_autograd_key),
    }
    general = {m: staticmethod(getattr(rules, m)) for m in ("forward", "setup_context", "jvp")}
    plain = {"forward": native.forward(operator.native, name, rules.native_plan)}
    functions = Functions(
        *(type(name, (_SingleLevelFunction,), shared | own) for own in (general, plain))
    )
    node = functions.plain._backward_cls
    node.apply = native.backward(node)
    return functions


def autograd_kernel(operator: TorchOperator) -> Callable[..., Any]:
    """The kernel of the public operator at the autograd dispatch keys."""
    apply = operator.functions.general.apply

    def unusual(*args: Any) -> Any:
        if (
            (_C.is_grad_enabled() and _C._any_requires_grad(*args))
            or forward_ad._current_level >= 0
            or _C._len_torch_dispatch_stack()
        ):
            return apply(*args)
        return operator.direct(*args)

    name = operator.qualname.split("::")[1]
    untransformed = native.fast_entry(operator.native, name, operator.differentiated, unusual)

    def kernel(keyset: Any, *args: Any) -> Any:
        if _C._are_functorch_transforms_active():
            if torch.compiler._is_exporting_flag:
                raise _no_transform_in_export(operator.operation)
            # The dispatcher brought us to one level already; torch asks for an explicit consent.
            allowed = _functorch.get_single_level_autograd_function_allowed()
            _functorch.set_single_level_autograd_function_allowed(True)
            try:
                return apply(*args)
            finally:
                _functorch.set_single_level_autograd_function_allowed(allowed)
        return untransformed(*args)

    return kernel


def _no_transform_in_export(operation: Operation) -> KernelGradError:
    """Torch's own operators give a program that fails, ours one of tensors without elements."""
    return KernelGradError(
        f"{operation.func.name}(): torch.export keeps no torch.func transform that differentiates",
        operation.func.loc,
        "export what make_fx(torch.func.grad(f))(x) of torch.fx.experimental.proxy_tensor traces",
    )


_SELECTIONS = (derivation.weighted, derivation.count)


class _Plan(NamedTuple):
    """The values that a call saves for its backward.

    Attributes:
        wrt: The operands that get a cotangent.
        taken: The operands that the adjoint takes.
        omit: The others.
        sized: Those of which the shape is kept, not the elements: some that the adjoint takes for
            the shape of a cotangent, and those of ``wrt`` that are omitted.
    """

    wrt: tuple[int, ...]
    taken: tuple[int, ...]
    omit: tuple[int, ...]
    sized: tuple[int, ...]


class _Rules:
    """The members of the autograd function."""

    def __init__(self, operator: TorchOperator) -> None:
        self.operator = operator
        self.operation = operator.operation
        self.plans: dict[tuple[bool, ...], _Plan] = {}
        # By operand the last stand-in of calls that no mode or transform observes.
        self.stand_ins: dict[int, torch.Tensor] = {}

    def forward(self, *args: Any) -> Any:
        if not _C._are_functorch_transforms_active():
            return self.operator.direct(*args)
        # The outer transforms must see an operator that they can differentiate, but torch runs
        # forward with both grad modes off.
        with (
            torch.enable_grad(),
            forward_ad._set_fwd_grad_enabled(True),
            _C._AutoDispatchBelowAutograd(),
        ):
            return self.operator.public(*args)

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        plan = self.plan(ctx.needs_input_grad)
        ctx.set_materialize_grads(False)
        numbers = tuple(None if isinstance(a, torch.Tensor) else a for a in inputs)
        ctx.call = (plan, tuple(inputs[k].shape for k in plan.sized), numbers)
        kept = (inputs[k] for k in plan.taken if k not in plan.sized)
        ctx.save_for_backward(*(a for a in kept if isinstance(a, torch.Tensor)))
        ctx.save_for_forward(*(a for a in inputs if isinstance(a, torch.Tensor)))

    def pull(
        self,
        plan: _Plan,
        shapes: Sequence[Any],
        numbers: Sequence[Any],
        saved: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor | None],
    ) -> tuple[Any, ...]:
        """The cotangents of the operands, given those of the results."""
        grads: list[torch.Tensor | None] = [None] * len(self.operation.operands)
        seeds = tuple(j for j, ct in enumerate(cotangents) if ct is not None)
        if not seeds or not plan.wrt:
            return tuple(grads)
        given = [ct for ct in cotangents if ct is not None]
        left, shape_of = iter(saved), dict(zip(plan.sized, shapes, strict=True))

        def primal(k: int) -> Any:
            if k in shape_of:
                return self.stand_in(k, shape_of[k], given[0])
            return next(left) if numbers[k] is None else numbers[k]

        primals = [primal(k) for k in plan.taken]
        operator, known = self.selected(plan.wrt, primals)
        adjoint, produced = operator.derived(derivation.vjp(plan.wrt, seeds, plan.omit))
        if adjoint is not None:
            found = adjoint.results(adjoint.entry(*primals, *known.operands, *given))
            for k, grad in zip(produced, found, strict=True):
                grads[k] = grad * known.start[k] if k in known.start else grad
        for k in plan.wrt:
            if grads[k] is None:
                dtype = dtype_to_torch(element_type(self.operation.operands[k].type))
                shape = shape_of[k] if k in shape_of else primals[plan.taken.index(k)].shape
                grads[k] = given[0].new_zeros(shape, dtype=dtype)
        return tuple(grads)

    def stand_in(self, operand: int, shape: Sequence[Any], like: torch.Tensor) -> torch.Tensor:
        """A tensor of one element that has the type and the shape of an operand."""
        dtype = dtype_to_torch(element_type(self.operation.operands[operand].type))
        return like.new_empty((), dtype=dtype).expand(shape)

    def kept_stand_in(self, operand: int, shape: torch.Size, like: torch.Tensor) -> torch.Tensor:
        """As ``stand_in``; the same tensor for calls of one shape after each other."""
        found = self.stand_ins.get(operand)
        if found is None or found.shape != shape or found.device != like.device:
            found = self.stand_in(operand, shape, like)
            if type(found) is torch.Tensor:
                self.stand_ins[operand] = found
        return found

    def jvp(self, ctx: Any, *tangents: torch.Tensor | None) -> Any:
        active = tuple(k for k, t in enumerate(tangents) if t is not None)
        saved = iter(ctx.saved_tensors)
        _, _, numbers = ctx.call
        primals = [next(saved) if n is None else n for n in numbers]
        base, known = self.selected(active, primals)
        given = [
            t * known.start[k] if k in known.start else t
            for k, t in enumerate(tangents)
            if t is not None
        ]
        operator, produced = base.derived(derivation.jvp(active))
        results: list[torch.Tensor | None] = [None] * self.operation.visible
        if operator is not None:
            found = operator.results(operator.entry(*primals, *known.operands, *given))
            for j, tangent in zip(produced, found, strict=True):
                results[j] = tangent
        shapes = self.operation.shapes(primals)
        for j, result in enumerate(self.operation.outputs):
            if results[j] is None and result.type.dtype.is_float:
                shape, dtype = evaluate(result.shape, shapes), dtype_to_torch(result.type.dtype)
                results[j] = given[0].new_zeros(shape, dtype=dtype)
        return results[0] if len(results) == 1 else tuple(results)

    def selected(
        self, active: Sequence[int], primals: Sequence[Any]
    ) -> tuple[TorchOperator, TieWeights]:
        """The operator to differentiate with respect to ``active``, and its constant operands.

        The operator itself, unless it takes atomic minima or maxima.
        """
        chosen = extremum_operations(self.operation, active)
        if chosen is None:
            return self.operator, TieWeights([], {})
        weighted, counts = (self.operator.derived(s(tuple(active))).operator for s in _SELECTIONS)
        assert weighted is not None
        assert counts is not None
        fixed = [p.detach() if isinstance(p, torch.Tensor) else p for p in primals]
        results = self.operator.results(self.operator.entry(*fixed))

        def run(operation: Operation, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
            return counts.results(counts.entry(*args))

        return weighted, find_ties(chosen, fixed, results, run, lambda x, like: x.to(like.dtype))

    def plan(self, needed: tuple[bool, ...]) -> _Plan:
        """The values to save when the operands marked in ``needed`` require a cotangent."""
        if needed not in self.plans:
            wrt = tuple(k for k, need in enumerate(needed) if need)
            omit, shaped = _unread(self.operation, wrt)
            taken = tuple(k for k in range(len(needed)) if k not in omit)
            sized = (*shaped, *(k for k in wrt if k in omit))
            self.plans[needed] = _Plan(wrt, taken, omit, sized)
        return self.plans[needed]

    def native_plan(self, needed: tuple[bool, ...]) -> native.TorchGradPlan:
        """The plan as native code has it, which asks for adjoints when they are first needed."""
        plan = self.plan(needed)

        def adjoint(given: int) -> native.TorchAdjoint | None:
            return self.native_adjoint(plan, given)

        recorded = self.recorded(plan)
        forward = None if recorded is None else recorded.native
        calls = adjoint, self.kept_stand_in, self.pull
        return native.TorchGradPlan(plan, plan.taken, plan.sized, forward, *calls)

    def recorded(self, plan: _Plan) -> TorchOperator | None:
        """The operator that saves results of loops for the adjoint, if that spares it any."""
        if not plan.wrt or extremum_operations(self.operation, plan.wrt) is not None:
            return None
        try:
            if saving(self.operation, plan.wrt) is None:
                return None
        except KernelGradError:
            return None  # Only a backward raises it: a call without one is valid.
        return self.operator.derived(derivation.saving_for(plan.wrt)).operator

    def native_adjoint(self, plan: _Plan, given: int) -> native.TorchAdjoint | None:
        """The adjoint for the cotangents that the bits of ``given`` mark, if it is one launch.

        It takes what ``recorded`` has saved.
        """
        if not plan.wrt or extremum_operations(self.operation, plan.wrt) is not None:
            return None
        seeds = tuple(j for j in range(self.operation.visible) if given >> j & 1)
        derive_vjp = derivation.vjp if self.recorded(plan) is None else derivation.saved_vjp
        operator, produced = self.operator.derived(derive_vjp(plan.wrt, seeds, plan.omit))
        if operator is None or set(produced) != set(plan.wrt):
            return None
        copies = copied_results(operator.operation)
        # Cotangents that are repeated need no launch, if no other result does.
        is_view = len(copies) == len(produced)
        repeated = [(c.operand, c.axes) for _, c in sorted(copies.items())] if is_view else []
        return native.TorchAdjoint(operator.native, produced, repeated)


def _unread(operation: Operation, wrt: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The operands that the adjoint does not need, and those of which it needs the shape alone.

    A shape is not needed if that of every cotangent tells it.
    """
    everything = tuple(range(len(operation.operands)))
    seeds = [j for j, r in enumerate(operation.outputs) if r.type.dtype.is_float]
    if not wrt or not seeds:
        return everything, ()
    try:
        adjoint = derive.vjp(operation, wrt, seeds).operation
    except KernelGradError:
        return (), ()  # Only a backward raises it: a call without one is valid.
    used = {e for shape in (adjoint.grid, *(r.shape for r in adjoint.results)) for e in shape}
    told = set.intersection(*(set(operation.outputs[j].shape) for j in seeds))
    unread = {k for k in everything if adjoint.param_of_operand(k) is None}
    for k in set(everything) - unread:
        told.update(operation.operands[k].shape or ())
    omit = tuple(k for k in sorted(unread) if all(e in told for e in used if e.operand == k))
    arrays = (k for k in everything if isinstance(operation.operands[k].type, ArrayType))
    return omit, tuple(k for k in arrays if k in unread and k not in omit)
