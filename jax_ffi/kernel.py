"""jax_kernel: a kernel as a function of JAX values, under every transformation."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, SupportsIndex

import numpy as np

# Imported for the rules that they register.
import jax_ffi.lowering
import jax_ffi.transforms  # noqa: F401
from jax_ffi.arguments import check_wide_types, operand_values
from jax_ffi.primitive import Launch, bind
from kernelcore import Kernel
from kernelcore.errors import KernelArgumentError
from kernelcore.opshape import kernel_operation, require_kernel

VMAP_METHODS = ("sequential", "expand_dims", "broadcast_all")

Dims = int | str | Sequence[int | str]
# The same in hashable form: a parameter whose shape it is, or extents.
_Dims = str | tuple[int | str, ...]


@dataclass(frozen=True, eq=False)
class JaxKernel:
    """A kernel as a function of JAX values; ``jax_kernel`` makes it.

    Attributes:
        kernel: The kernel.
        outputs: Parameters that are results, and not arguments.
        in_out: Parameters that are arguments, and results that start as copies of them.
        launch_dims: The launch shape if a call gives none.
        output_dims: Shapes of outputs, by name, if a call gives none.
        differentiable: Whether the calls can be differentiated.
        has_side_effect: Whether calls stay although their results are not used.
    """

    kernel: Kernel
    outputs: tuple[str, ...]
    in_out: tuple[str, ...]
    launch_dims: _Dims | None
    output_dims: tuple[tuple[str, _Dims], ...] | None
    differentiable: bool
    has_side_effect: bool
    launches: dict[Any, Launch] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "__name__", self.kernel.name)
        object.__setattr__(self, "__doc__", self.kernel.__doc__)

    def __copy__(self) -> JaxKernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> JaxKernel:
        return self

    def __reduce__(self) -> NoReturn:
        raise _refuse(
            self.kernel,
            "a JaxKernel cannot be pickled: its kernel is made of Python source",
            "import the module that defines the kernel, and call jax_kernel there",
        )

    def __call__(
        self,
        *args: Any,
        launch_dims: Dims | None = None,
        output_dims: Dims | Mapping[str, Dims] | None = None,
        vmap_method: str | None = None,
        **named: Any,
    ) -> tuple[Any, ...]:
        """Run the kernel, or trace it.

        Args:
            args: Per parameter that is no output, in order: a JAX or NumPy array of the declared
                dtype and rank; for a scalar a number, or an array without dimensions; for a vector
                or a matrix a sequence of numbers, or an array of its components. An array of such
                elements has the components as last axes.
            launch_dims: The launch shape, without batch dimensions: numbers, extents of arguments
                ('x.shape[0]'), or an argument ('x', its shape).
            output_dims: Likewise the shape of every output, or a mapping by name; the components
                of elements may be left out.
            vmap_method: Accepted for compatibility; each instance of a batch runs on its own.
            named: Arguments by name.

        Returns:
            The results in the order of the parameters.

        Raises:
            KernelArgumentError: An argument does not fit the kernel.
        """
        if vmap_method is not None:
            _check_vmap_method(self.kernel, vmap_method)
        launch = self._launch(launch_dims, output_dims)
        check_wide_types(launch.operation)
        operands = operand_values(launch.operation, args, named)
        launch.operation.check_extents([np.shape(x) for x in operands])
        return tuple(bind(operands, launch))

    def _launch(
        self, launch_dims: Dims | None, output_dims: Dims | Mapping[str, Dims] | None
    ) -> Launch:
        grid = self.launch_dims if launch_dims is None else _dims(self.kernel, launch_dims)
        shapes = self.output_dims
        if output_dims is not None:
            shapes = _output_dims(self.kernel, self.outputs, output_dims)
        launch = self.launches.get((grid, shapes))
        if launch is None:
            operation = kernel_operation(
                self.kernel, self.outputs, self.in_out, grid, dict(shapes or ())
            )
            launch = Launch(operation, (), self.differentiable, self.has_side_effect)
            self.launches[grid, shapes] = launch
        return launch


def jax_kernel(
    kernel: Kernel,
    num_outputs: int = 1,
    vmap_method: str | None = None,
    launch_dims: Dims | None = None,
    output_dims: Dims | Mapping[str, Dims] | None = None,
    in_out_argnames: str | Iterable[str] | None = None,
    enable_backward: bool = True,
    has_side_effect: bool = False,
    block_dim: int | None = None,
) -> JaxKernel:
    """Make a function of JAX values of a kernel.

    It works under every transformation of JAX, in any order, and yields a tuple of results. Arrays
    that every thread indexes by its launch index must be as large as the launch; other indices
    are not checked.

    Args:
        kernel: The kernel. Its last parameters are outputs.
        num_outputs: How many results there are, in-out arguments included.
        vmap_method: Accepted for compatibility; each instance of a batch runs on its own.
        launch_dims: The launch shape; default: the shape of the first array argument.
        output_dims: The shape of every output, or a mapping by name; default: the launch shape.
        in_out_argnames: Arrays that the kernel updates. They are arguments, which are preserved,
            and results.
        enable_backward: Whether the function can be differentiated.
        has_side_effect: Whether calls stay although their results are not used.
        block_dim: Threads per block on GPUs.

    Raises:
        KernelArgumentError: The options do not fit the kernel.
        KernelError: The kernel is not in the kernel language.
    """
    require_kernel(kernel)
    if vmap_method is not None:
        _check_vmap_method(kernel, vmap_method)
    if block_dim is not None and (not isinstance(block_dim, int) or block_dim < 1):
        text = f"block_dim: expected a positive integer, found {block_dim!r}"
        raise _refuse(kernel, text, "leave it out: only GPUs have blocks of threads")
    in_out = _in_out_names(kernel, in_out_argnames)
    outputs = _output_names(kernel, num_outputs, in_out)
    return JaxKernel(
        kernel,
        outputs,
        in_out,
        None if launch_dims is None else _dims(kernel, launch_dims),
        None if output_dims is None else _output_dims(kernel, outputs, output_dims),
        enable_backward,
        has_side_effect,
    )


def _in_out_names(kernel: Kernel, given: object) -> tuple[str, ...]:
    names = [p.name for p in kernel.func.params]
    if given is not None and not isinstance(given, Iterable):
        raise _refuse(
            kernel,
            f"in_out_argnames: expected names of parameters, found {given!r}",
            f"its parameters are {', '.join(names)}",
        )
    in_out = (given,) if isinstance(given, str) else tuple(given or ())
    for name in in_out:
        if name not in names:
            raise _refuse(
                kernel,
                f"in_out_argnames: no parameter is named '{name}'",
                f"its parameters are {', '.join(names)}",
            )
    return in_out


def _output_names(kernel: Kernel, num_outputs: int, in_out: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters that are results only: the last ones that are not in-out."""
    names = [p.name for p in kernel.func.params]
    if not isinstance(num_outputs, SupportsIndex):
        raise _refuse(
            kernel,
            f"num_outputs: expected an integer, found {num_outputs!r}",
            "give the number of results, in-out arguments included",
        )
    count = operator.index(num_outputs) - len(in_out)
    candidates = [n for n in names if n not in in_out]
    if num_outputs < 1 or not 0 <= count <= len(candidates):
        raise _refuse(
            kernel,
            f"num_outputs: found {num_outputs}, with {len(in_out)} in-out arguments "
            f"and {len(names)} parameters",
            "give the number of results, in-out arguments included",
        )
    return tuple(candidates[len(candidates) - count :])


def _dims(kernel: Kernel, spec: Dims) -> _Dims:
    if isinstance(spec, str):
        return spec
    entries = spec if isinstance(spec, Iterable) else (spec,)
    try:
        return tuple(e if isinstance(e, str) else operator.index(e) for e in entries)
    except TypeError:
        raise _refuse(
            kernel,
            f"a shape: expected numbers or extents of arguments, found {spec!r}",
            "name an extent that is known at run time only: 'x.shape[0]'",
        ) from None


def _output_dims(
    kernel: Kernel, outputs: tuple[str, ...], spec: Dims | Mapping[str, Dims]
) -> tuple[tuple[str, _Dims], ...]:
    if not isinstance(spec, Mapping):
        shape = _dims(kernel, spec)
        return tuple((name, shape) for name in outputs)
    for name in spec:
        if name not in outputs:
            raise _refuse(
                kernel,
                f"output_dims: '{name}' is no output",
                f"its outputs are {', '.join(outputs) or 'in-out arguments only'}",
            )
    return tuple((name, _dims(kernel, spec[name])) for name in outputs if name in spec)


def _check_vmap_method(kernel: Kernel, method: str) -> None:
    if method not in VMAP_METHODS:
        raise _refuse(
            kernel,
            f"vmap_method: expected one of {', '.join(VMAP_METHODS)}, found {method!r}",
            "leave it out: every instance of a batch runs on its own in any case",
        )


def _refuse(kernel: Kernel, text: str, remedy: str) -> KernelArgumentError:
    return KernelArgumentError(f"{kernel.name}: {text}", kernel.func.loc, remedy)
