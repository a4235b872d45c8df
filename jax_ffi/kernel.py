"""jax_kernel: a kernel as a function of JAX values, under every transformation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

# Imported for the rules that they register.
import jax_ffi.lowering
import jax_ffi.transforms  # noqa: F401
from jax_ffi.arguments import Operands
from jax_ffi.function import JaxFunction
from jax_ffi.fusion import require_arithmetic
from jax_ffi.options import (
    Dims,
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
    Arguments,
    BoundKernel,
    BoundKernels,
    Declaration,
    Operation,
    Scalar,
    Spec,
    cached_property,
    checked_keywords,
    has_callables,
    require_kernel,
    result_leaves,
    roles,
)

# Shapes of calls of one kernel that are remembered.
MOST_SHAPES = 256


@dataclass(frozen=True, slots=True)
class Call:
    """One application of a kernel: what is bound, and how arguments and results consist of it."""

    launch: Launch
    operands: Operands
    bound: BoundKernel
    # Shapes that were checked: those of calls are the same most of the time.
    _known: set[tuple[tuple[Any, ...], ...]] = field(
        default_factory=set[tuple[tuple[Any, ...], ...]], repr=False
    )

    def check_extents(self, shapes: tuple[tuple[Any, ...], ...]) -> None:
        """Refuse operands of ``shapes`` that do not fit the kernel or the launch.

        Raises:
            KernelArgumentError: Naming the parameter.
        """
        if shapes in self._known:
            return
        self.launch.operation.check_extents(shapes)
        if len(self._known) < MOST_SHAPES:
            self._known.add(shapes)


@dataclass(frozen=True, eq=False, repr=False)
class JaxKernel(JaxFunction):
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

    @property
    def pyfunc(self) -> Callable[..., Any]:
        """The Python function that it is made of."""
        return self.kernel.pyfunc

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
        if self._integers:
            given = dict(zip(self._named.names, self._named.bind(args, named), strict=True))
            launch_dims, output_dims = self._known_dims(launch_dims, output_dims, given)
        has_dims = launch_dims is not None or output_dims is not None
        kernels = self._kernels(launch_dims, output_dims) if has_dims else self._default
        call, leaves, shape = kernels.bind(args, named)
        operands = call.operands.values(leaves)
        call.check_extents(tuple(np.shape(x) for x in operands))
        found = call.bound.restored(bind(operands, call.launch), shape)
        return call.bound.unflatten(found, operands)

    def default_operation(self) -> Operation:
        """What a call computes that gives no shapes."""
        return self._default.of({}).launch.operation

    @cached_property
    def _default(self) -> BoundKernels[Call]:
        """The kernel with the shapes of calls that give none."""
        return self._kernels(None, None)

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

    @cached_property
    def calls(self) -> dict[Any, BoundKernels[Call]]:
        """The kernel with the shapes of calls so far."""
        return {}

    def _kernels(
        self, launch_dims: Dims | None, output_dims: OutputDims | None
    ) -> BoundKernels[Call]:
        """The kernel with the shapes that a call gives."""
        declared, spec = self._declaration, self.spec
        grid = frozen(declared, launch_dims)
        shapes = output_shapes(declared, spec.outputs or (), output_dims)
        found = self.calls.get((grid, shapes))
        if found is None:
            own = replace(
                spec,
                launch_dims=spec.launch_dims if grid is None else grid,
                output_dims=spec.output_dims if shapes is None else dict(shapes),
            )
            found = BoundKernels(self.kernel, own, self._make_call, _number_of)
            self.calls[grid, shapes] = found
        return found

    def _make_call(self, bound: BoundKernel) -> Call:
        operation, spec = bound.operation, self.spec
        require_arithmetic(operation, spec.fuse)
        launch = Launch(
            operation, (), self.differentiable, self.has_side_effect, spec.block_dim, spec.fuse
        )
        return Call(launch, Operands.of(operation), bound)


def _number_of(arg: Any) -> Any:
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

        import jax
        import jax.numpy as jnp

        @kc.kernel
        def double(x: kc.array[float], y: kc.array[float]):
            i = kc.tid()
            y[i] = 2.0 * x[i]

        (y,) = jax.jit(kc.jax_kernel(double))(jnp.ones(3))
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
