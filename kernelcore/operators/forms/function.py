"""FunctionForm: a Python function that launches kernels, for the arrays of one framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.lazy import Deferred
from kernelcore.operators.forms.base import Form, Run, results_type
from kernelcore.operators.forms.cost import Cost, CostCounter
from kernelcore.operators.forms.host import call_on_arrays
from kernelcore.operators.spec import DimsKey, Spec, known_dims, take_numbers
from kernelcore.operators.traced.interface import (
    Interface,
    declaration,
    declared_parameters,
    interface,
    with_function_results,
)
from kernelcore.operators.traced.program_cache import Programs

torch_callable = Deferred("torch_ext.callable")
jax_callable = Deferred("jax_ffi.callable")


class FunctionForm(Form):
    """A Python function that launches kernels, for the arrays of one framework."""

    def __init__(self, framework: str, function: Callable[..., Any], spec: Spec) -> None:
        self.function_ = function
        rows = declared_parameters(function)
        if spec.launch_dims is not None or spec.block_dim:
            raise KernelArgumentError(
                f"{function.__name__}: launch_dims and block_dim are those of a kernel, found a "
                "function that launches kernels",
                remedy="leave them out: its launches say where they run",
            )
        if spec.fuse is True:
            raise KernelArgumentError(
                f"{function.__name__}: fuse=True: expected an elementwise kernel, found a function "
                "that launches kernels",
                remedy="make one operator of each kernel: kc.op(kernel, fuse=True)",
            )
        spec = with_function_results(function, spec)
        super().__init__(framework, declaration(function), spec, [p for p, _ in rows])

    def make(self, key: DimsKey) -> tuple[Run, Run]:
        if key[2]:
            made = self._of_numbers(key)
            return made, made
        return self._of_shapes(known_dims(key, ())[1])

    def _of_numbers(self, key: DimsKey) -> Run:
        """What runs for shapes with numbers that calls give: a program for each of them."""
        made: dict[tuple[Any, ...], Run] = {}

        def run(*args: Any, **kwargs: Any) -> Any:
            given, numbers = take_numbers(key, args, kwargs)
            if numbers not in made:
                made[numbers] = self._of_shapes(known_dims(key, numbers)[1])[1]
            return made[numbers](*given, **kwargs)

        return run

    def _of_shapes(self, output_dims: Mapping[str, Any] | None) -> tuple[Run, Run]:
        function, packed = self.function_, self.packed
        spec = replace(self.spec, output_dims=output_dims)
        if self.framework == "torch":
            self.refuse_mutation("arguments of functions that launch kernels")
            made = torch_callable.function_operator(function, spec)
            if len(self.results) == 1:
                return made, made
            results = results_type(self.name, self.results)
            return made, lambda *args, **kwargs: results(*made(*args, **kwargs))
        if self.framework == "jax":
            self.refuse_mutation("JAX arrays")
            made = jax_callable.function_operator(function, spec)
            return made, lambda *args, **kwargs: packed(made(*args, **kwargs))
        if self.framework == "paddle":
            raise KernelArgumentError(
                f"{self.name}: a function that launches kernels is no operator of Paddle",
                remedy="make one operator of each kernel: kc.op(kernel)",
            )
        self.refuse_mutation("arguments of functions that launch kernels")
        declared = interface(function, spec)
        if self.framework == "cost":
            return self._of_cost(declared), self._of_cost(declared)
        is_numpy = self.framework == "numpy"

        def run(*args: Any, **kwargs: Any) -> Any:
            named = dict(zip(self.names, self.arguments.bind(args, kwargs), strict=True))
            self.refuse_mixed(named)
            return packed(call_on_arrays(declared, named, is_numpy))

        return run, run

    def _of_cost(self, declared: Interface) -> Run:
        """What counts a call, and does not run it."""
        arguments, programs = declared.arguments, Programs(declared)

        def run(*args: Any, **kwargs: Any) -> Cost:
            values = arguments.bind(args, kwargs)
            counter = CostCounter()
            programs.of(values).run(values, counter.apply)
            return counter.cost

        return run
