"""KernelForm: a kernel for the arrays of one framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.lazy import Deferred
from kernelcore.launch.kernel import Kernel
from kernelcore.operators.any_rank import AnyRank, write_back
from kernelcore.operators.arguments import Arguments
from kernelcore.operators.bound_kernel import BoundKernel, BoundKernels, bound_kernel
from kernelcore.operators.forms.base import Form, Run, results_type
from kernelcore.operators.forms.cost import Cost, CostCounter
from kernelcore.operators.forms.host import run_on_arrays, run_on_numpy
from kernelcore.operators.spec import (
    Declaration,
    DimsKey,
    Spec,
    known_dims,
    take_numbers,
    with_results,
)
from kernelcore.operators.updated_arrays import apart_from, require_updatable

# Adapters, which import their framework: they are loaded when an array of it has been seen.
torch_entry = Deferred("torch_ext.entry")
jax_entry = Deferred("jax_ffi.kernel")
paddle_entry = Deferred("paddle_ext.operator")


class KernelForm(Form):
    """A kernel for the arrays of one framework.

    Attributes:
        kernel: The kernel.
    """

    def __init__(self, framework: str, kernel: Kernel, spec: Spec) -> None:
        self.kernel = kernel
        spec = with_results(kernel, spec)
        outputs = spec.outputs or ()
        names = [p.name for p in kernel.parameters if p.name not in outputs]
        returned = {*outputs, *spec.in_out} - {*spec.mutates}
        results = [p.name for p in kernel.parameters if p.name in returned]
        self.any_rank = AnyRank.of(kernel.name, kernel.parameters, names, results)
        super().__init__(framework, Declaration.of_kernel(kernel), spec, kernel.parameters)

    def make(self, key: DimsKey) -> tuple[Run, Run]:
        made, run = _MAKERS[self.framework](self, key)
        # What adapters return takes any rank.
        if self.any_rank is None or self.framework not in ("numpy", "kernelcore"):
            return made, run
        flat = self._of_any_rank(run, self.any_rank)
        return flat, flat

    def _of_any_rank(self, run: Run, any_rank: AnyRank) -> Run:
        """``run``, of arrays of any rank."""
        is_single = len(self.results) == 1
        mutates = self.spec.mutates

        def flat(*args: Any, **kwargs: Any) -> Any:
            if mutates:
                require_updatable(mutates, any_rank.named(args, kwargs), self.error)
            given, named, shape = any_rank.flatten(args, kwargs)
            copies = any_rank.copies(mutates, (args, kwargs), (given, named)) if mutates else ()
            found = run(*given, **named)
            for array, copy in copies:
                write_back(array, copy)
            if not self.results:
                return None
            return self.packed(any_rank.restore((found,) if is_single else found, shape))

        return flat

    def error(self, name: str, expected: str, found: str, remedy: str) -> KernelArgumentError:
        """The error for the argument of a parameter, or of its leaf ``name``."""
        root = name.split(".")[0]
        loc = next((p.loc for p in self.kernel.parameters if p.name == root), None)
        return KernelArgumentError(
            f"{self.name}(): argument '{name}': expected {expected}, found {found}", loc, remedy
        )

    def with_dims(self, key: DimsKey) -> Spec:
        """The contract with shapes of the form ``key``."""
        launch_dims, rows, sizes = key
        return replace(self.spec, launch_dims=launch_dims, output_dims=dict(rows), sizes=sizes)


def _torch(form: KernelForm, key: DimsKey) -> tuple[Run, Run]:
    spec = form.with_dims(key)
    if form.kernel.is_generic:

        def specialise(chosen: Kernel) -> Run:
            bound = bound_kernel(chosen, spec)
            return _packed_torch(form, bound, torch_entry.operator_function(bound)[0])

        made = torch_entry.generic_function(form.kernel, spec, specialise)
        return made, made
    bound = bound_kernel(form.kernel.current(), spec)
    made, eager = torch_entry.operator_function(bound)
    if form.is_own(key):
        form.quick = _packed_torch(form, bound, eager)
    return made, _packed_torch(form, bound, made)


def _packed_torch(form: KernelForm, bound: BoundKernel, made: Run) -> Run:
    """``made``, whose results are those of the operation, with the results of the operator."""
    mutated = form.spec.mutates
    if not form.results:
        return made
    if len(form.results) == 1 and bound.is_direct and not bound.needs_operands:
        return made
    flat = bound.arguments.flattened()
    results = results_type(form.kernel.name, form.results) if len(form.results) > 1 else None
    gone = [r.name.split(".")[0] in mutated for r in bound.operation.outputs]
    is_single = sum(not one for one in gone) == 1
    needs_operands = bound.needs_operands
    trees = [(tree, tree.name not in mutated) for tree in bound.results]
    sources = bound.sources

    def packed(*args: Any, **kwargs: Any) -> Any:
        found = made(*args, **kwargs)
        left = iter((found,) if is_single else found)
        values = [None if one else next(left) for one in gone]
        operands = flat(args, kwargs) or () if needs_operands else ()
        leaves = [values[i] if is_made else operands[i] for is_made, i in sources]
        whole = [tree.unflatten(leaves) for tree, is_kept in trees if is_kept]
        return whole[0] if results is None else results(*whole)

    return packed


def _paddle(form: KernelForm, key: DimsKey) -> tuple[Run, Run]:
    form.refuse_mutation("Paddle tensors")
    made = paddle_entry.kernel_function(form.kernel, form.with_dims(key))
    return made, lambda *args, **kwargs: form.packed(made.whole(args, kwargs))


def _numpy(form: KernelForm, key: DimsKey) -> tuple[Run, Run]:
    mutates = form.spec.mutates
    kernels = BoundKernels(form.kernel, form.with_dims(key), lambda bound: bound)

    def run(*args: Any, **kwargs: Any) -> Any:
        bound, operands, _ = kernels.bind(args, kwargs)
        if mutates:
            named = zip((o.name for o in bound.operation.operands), operands, strict=True)
            require_updatable(mutates, dict(named), form.error)
        found = run_on_numpy(bound, operands)
        if mutates:
            _write_back(bound, operands, found, mutates)
        trees = zip(bound.results, found, strict=True)
        return form.packed([one for tree, one in trees if tree.name not in mutates])

    return run, run


def _write_back(
    bound: BoundKernel, operands: Sequence[Any], found: Sequence[Any], mutates: Sequence[str]
) -> None:
    """Write the results for parameters ``mutates`` to the arrays that the call gave."""
    made = {r.name: k for k, r in enumerate(bound.operation.outputs)}
    trees = dict(zip((t.name for t in bound.results), found, strict=True))
    for k, operand in enumerate(bound.operation.operands):
        root, *path = operand.name.split(".")
        if operand.name in made and root in mutates:
            value = trees[root]
            for part in path:
                value = value[part]
            operands[k][...] = value


def _kernelcore(form: KernelForm, key: DimsKey) -> tuple[Run, Run]:
    spec, count = form.spec, len(form.names)
    wanted = Arguments.of_names(
        form.kernel.name, form.arguments.loc, (*form.names, *key[2]), spec.defaults
    )
    kernels = BoundKernels(form.kernel, form.with_dims(key), lambda bound: bound)

    def run(*args: Any, **kwargs: Any) -> Any:
        values = wanted.bind(args, kwargs)
        named = dict(zip(form.names, values[:count], strict=True))
        form.refuse_mixed(named)
        if form.spec.mutates:
            require_updatable(form.spec.mutates, named, form.error)
            named = apart_from(named, form.spec.mutates)
        bound, sizes = kernels.of(named), values[count:]
        return form.packed(run_on_arrays(bound, named, sizes, spec.mutates, spec.block_dim))

    return run, run


def _jax(form: KernelForm, key: DimsKey) -> tuple[Run, Run]:
    form.refuse_mutation("JAX arrays")
    bound = jax_entry.kernel_function(form.kernel, form.spec)
    packed = form.packed

    def own(*args: Any, **kwargs: Any) -> Any:
        return packed(bound(*args, **kwargs))

    def run(*args: Any, **kwargs: Any) -> Any:
        # Shapes are part of a program, so that numbers in them are literals.
        given, numbers = take_numbers(key, args, kwargs)
        launch_dims, output_dims = known_dims(key, numbers)
        return packed(bound(*given, **kwargs, launch_dims=launch_dims, output_dims=output_dims))

    return bound, own if form.is_own(key) else run


def _cost(form: KernelForm, key: DimsKey) -> tuple[Run, Run]:
    """What counts a call, and does not run it."""
    kernels = BoundKernels(form.kernel, form.with_dims(key), lambda bound: bound)

    def run(*args: Any, **kwargs: Any) -> Cost:
        bound, operands, _ = kernels.bind(args, kwargs)
        counter = CostCounter()
        counter.apply(bound.operation, operands)
        return counter.cost

    return run, run


_MAKERS: Mapping[str, Callable[[KernelForm, DimsKey], tuple[Run, Run]]] = {
    "torch": _torch,
    "jax": _jax,
    "paddle": _paddle,
    "numpy": _numpy,
    "kernelcore": _kernelcore,
    "cost": _cost,
}
