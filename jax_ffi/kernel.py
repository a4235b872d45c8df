"""jax_kernel: a kernel as a function of JAX values, under every transformation."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import jax
import numpy as np

# Imported for the rules that they register.
import jax_ffi.lowering
import jax_ffi.transforms  # noqa: F401
from jax_ffi.arguments import Operands
from jax_ffi.fusion import require_arithmetic
from jax_ffi.options import (
    Dims,
    FrozenDims,
    FrozenOutputDims,
    OutputDims,
    check_vmap_method,
    contract,
    entries_of,
    frozen,
    output_shapes,
    with_shapes,
)
from jax_ffi.primitive import Launch, bind
from jax_ffi.registration import compile_if_stored
from kernelcore import Kernel
from kernelcore.base.errors import KernelArgumentError
from kernelcore.operators import (
    AnyRank,
    Arguments,
    BoundKernel,
    Declaration,
    Operation,
    Scalar,
    Spec,
    bound_kernel,
    cached_property,
    checked_keywords,
    has_callables,
    pickling,
    require_kernel,
    result_leaves,
    roles,
)


@dataclass(frozen=True, slots=True)
class Call:
    """One application of a kernel: what is bound, and how arguments and results consist of it."""

    launch: Launch
    operands: Operands
    bound: BoundKernel


@dataclass(frozen=True, eq=False)
class JaxKernel:
    """A kernel as a function of JAX values; ``jax_kernel`` makes it.

    Two of one kernel with the same options are equal, so modules that hold them are equal trees.

    Attributes:
        kernel: The kernel.
        spec: Which parameters are results, and the shapes of calls that give none.
        differentiable: Whether the calls can be differentiated.
        has_side_effect: Whether calls stay although their results are not used.
    """

    kernel: Kernel
    spec: Spec
    differentiable: bool = True
    has_side_effect: bool = False
    calls: dict[Any, Call] = field(default_factory=dict[Any, Call], repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "__name__", self.kernel.name)
        object.__setattr__(self, "__doc__", self.kernel.__doc__)

    @cached_property
    def _identity(self) -> Hashable:
        return self.kernel, self.spec.identity, self.differentiable, self.has_side_effect

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JaxKernel) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __copy__(self) -> JaxKernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> JaxKernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        given = [f.name for f in fields(self) if f.name != "calls"]
        made = JaxKernel, tuple(getattr(self, name) for name in given)
        return pickling.reduced(self, self.kernel.pyfunc, lambda: made)

    def __call__(
        self,
        *args: Any,
        launch_dims: Dims | None = None,
        output_dims: OutputDims | None = None,
        vmap_method: str | None = None,
        **named: Any,
    ) -> tuple[Any, ...]:
        """Run the kernel, or trace it.

        Args:
            args: One per parameter other than outputs: a JAX or NumPy array of the declared
                dtype and rank; for a scalar a number, or an array without dimensions; for a vector
                or a matrix a sequence of numbers, or an array of its components; for a struct one
                of its values or a mapping from its fields; for an array of structs a structured
                array or a mapping from fields to arrays. Arrays of vectors and matrices have the
                components as last axes.
            launch_dims: The launch shape, without batch dimensions: numbers, extents of arguments
                ('x.shape[0]'), or an argument ('x', its shape).
            output_dims: Likewise the shape of every output, or a mapping by name; the components
                of elements may be left out.
            vmap_method: Accepted for compatibility, without effect.
            named: Arguments by name.

        Returns:
            The results in the order of the parameters; an array of structs is a dictionary.

        Raises:
            KernelArgumentError: An argument does not fit the kernel.
        """
        check_vmap_method(self._declaration, vmap_method)
        if self._any_rank is None:
            return self._run(args, named, launch_dims, output_dims)
        args, named, shape = self._any_rank.flatten(args, named)
        found = self._run(args, named, launch_dims, output_dims)
        return tuple(self._any_rank.restore(found, shape))

    @cached_property
    def _any_rank(self) -> AnyRank | None:
        names = [p.name for p in self.kernel.parameters]
        spec = self.spec
        results = [n for n in names if n in (*(spec.outputs or ()), *spec.in_out)]
        return AnyRank.of(self.kernel.name, self.kernel.parameters, self._named.names, results)

    def _run(
        self,
        args: tuple[Any, ...],
        named: dict[str, Any],
        launch_dims: Dims | None,
        output_dims: OutputDims | None,
    ) -> tuple[Any, ...]:
        """The results of a call with arrays of the ranks that the kernel declares."""
        kernel = self.kernel.current()
        if kernel.is_generic:
            args, given = tuple(self._named.bind(args, named)), self._named.names
            kernel = kernel.for_inputs({n: _sample(a) for n, a in zip(given, args, strict=True)})
            named = {}
        if self._integers:
            given = dict(zip(self._named.names, self._named.bind(args, named), strict=True))
            launch_dims, output_dims = self._known_dims(launch_dims, output_dims, given)
        call = self._call(kernel, launch_dims, output_dims)
        operands = call.operands.values(call.bound.arguments.bind(args, named))
        call.launch.operation.check_extents([np.shape(x) for x in operands])
        return call.bound.unflatten(bind(operands, call.launch), operands)

    def default_operation(self) -> Operation:
        """What a call computes that gives no shapes."""
        return self._call(self.kernel, None, None).launch.operation

    @cached_property
    def _declaration(self) -> Declaration:
        return Declaration.of_kernel(self.kernel)

    @cached_property
    def _named(self) -> Arguments:
        """The arguments before the types are known, one value each."""
        declared, spec = self._declaration, self.spec
        names = [n for n in declared.parameters if n not in (spec.outputs or ())]
        return Arguments.of_names(declared.name, declared.loc, names, spec.defaults)

    @cached_property
    def _integers(self) -> frozenset[str]:
        """The arguments that are integers, which shapes may name."""
        typed = ((p.name, p.type) for p in self.kernel.parameters)
        return frozenset(n for n, t in typed if isinstance(t, Scalar) and t.is_integer)

    def _known_dims(
        self, launch_dims: Dims | None, output_dims: OutputDims | None, given: dict[str, Any]
    ) -> tuple[Dims | None, OutputDims | None]:
        """The shapes of a call, with the values of integer arguments in place of their names."""

        def known(dims: Any) -> Any:
            if dims is None or (isinstance(dims, str) and dims not in self._integers):
                return dims
            entries = (dims,) if isinstance(dims, str) else entries_of(dims)
            if entries is None or self._integers.isdisjoint(entries):
                return dims
            return tuple(self._extent(e, given) if e in self._integers else e for e in entries)

        outputs: Any = self.spec.output_dims if output_dims is None else output_dims
        if isinstance(outputs, Mapping):
            outputs = {name: known(dims) for name, dims in outputs.items()}
        else:
            outputs = known(outputs)
        return known(self.spec.launch_dims if launch_dims is None else launch_dims), outputs

    def _extent(self, name: Any, given: dict[str, Any]) -> int:
        try:
            return operator.index(given[name])
        except TypeError:  # A value that is traced, too.
            declared = self._declaration
            raise KernelArgumentError(
                f"{declared.name}(): argument '{name}': expected an integer that is known while "
                "the program is traced, since it is an extent of a shape",
                declared.loc,
                f"name it in static_argnames of jax.jit: static_argnames='{name}'",
            ) from None

    def _call(
        self, kernel: Kernel, launch_dims: Dims | None, output_dims: OutputDims | None
    ) -> Call:
        declared = self._declaration
        grid = frozen(declared, launch_dims)
        shapes = output_shapes(declared, self.spec.outputs or (), output_dims)
        call = self.calls.get((kernel, grid, shapes))
        if call is None:
            call = self.calls[kernel, grid, shapes] = self._make_call(kernel, grid, shapes)
        return call

    def _make_call(
        self, kernel: Kernel, grid: FrozenDims | None, shapes: FrozenOutputDims | None
    ) -> Call:
        spec = self.spec
        own = replace(
            spec,
            launch_dims=spec.launch_dims if grid is None else grid,
            output_dims=spec.output_dims if shapes is None else dict(shapes),
        )
        bound = bound_kernel(kernel, own)
        operation = bound.operation
        require_arithmetic(operation, spec.fuse)
        launch = Launch(
            operation, (), self.differentiable, self.has_side_effect, spec.block_dim, spec.fuse
        )
        return Call(launch, Operands.of(operation), bound)


def _sample(arg: Any) -> Any:
    """``arg``, or a number of its type where it is an array without dimensions."""
    if isinstance(arg, jax.Array | np.ndarray) and arg.ndim == 0:
        return np.zeros((), arg.dtype)[()]
    return arg


@checked_keywords
def jax_kernel(
    kernel: Kernel,
    num_outputs: int = 1,
    vmap_method: str | None = None,
    launch_dims: Dims | None = None,
    output_dims: OutputDims | None = None,
    in_out_argnames: str | Iterable[str] | None = None,
    enable_backward: bool = True,
    has_side_effect: bool = False,
    block_dim: int | None = None,
) -> JaxKernel:
    """Make a JAX function of a kernel: a function of arrays without side effects.

    The function works under every transformation of JAX, in any order. An array that every thread
    indexes by its launch index must be at least as large as the launch; other indices are not
    checked.

    Args:
        kernel: The kernel. Its last parameters are the outputs. An output of a generic kernel has
            the type of the first argument with the same annotation.
        num_outputs: The number of results, in-out arguments included.
        vmap_method: Accepted for compatibility, without effect.
        launch_dims: The launch shape. Default: the shape of the first array argument; larger arrays
            that threads access at their launch index alone are refused then.
        output_dims: The shape of every output, or a mapping by name. Default: the launch shape, of
            outputs that threads write at their launch index.
        in_out_argnames: Arrays that the kernel updates: each is an argument, which is preserved,
            and a result, which starts as a copy of it.
        enable_backward: Whether the function has derivatives.
        has_side_effect: Whether JAX keeps calls whose results are not used.
        block_dim: Threads per block on GPUs. Default: the launcher's choice.

    Returns:
        A function of the kernel's parameters without the outputs, which returns a tuple of arrays:
        the results in the order of the parameters.

    Raises:
        KernelArgumentError: The options do not fit the kernel, or it writes an array that is
            neither an output nor in-out.
        KernelError: The kernel is not in the kernel language.

    Example::

        @kc.kernel
        def double(x: kc.array(dtype=float), y: kc.array(dtype=float)):
            i = kc.tid()
            y[i] = 2.0 * x[i]

        (y,) = jax.jit(jax_kernel(double))(jnp.ones(3))
    """
    require_kernel(kernel)
    declared = Declaration.of_kernel(kernel)
    check_vmap_method(declared, vmap_method)
    spec = contract(declared, num_outputs, in_out_argnames, launch_dims, output_dims, block_dim)
    made = JaxKernel(kernel, spec, enable_backward, has_side_effect)
    if not kernel.is_generic:
        leaves = result_leaves(kernel, spec.outputs or (), spec.in_out)
        roles(kernel, leaves.outputs, leaves.in_out)
        compile_if_stored(made, JaxKernel.default_operation)
    return made


def kernel_function(kernel: Kernel, spec: Spec) -> JaxKernel:
    """What ``jax_kernel`` returns, of a kernel under a contract that names its outputs.

    Shapes are left to the calls where one of them is a function.
    """
    shapes = (None, None) if has_callables(spec) else (spec.launch_dims, spec.output_dims)
    return JaxKernel(kernel, with_shapes(Declaration.of_kernel(kernel), spec, *shapes))
