"""torch_op: makes a torch operator of a kernel."""

from __future__ import annotations

import keyword
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch._ops import OpOverload, _OpNamespace

from kernelcore import Kernel, Op
from kernelcore import kernel as as_kernel
from kernelcore.base.errors import KernelArgumentError
from kernelcore.operators import (
    BoundKernel,
    Declaration,
    Operation,
    ShapeSpec,
    Spec,
    Versions,
    bound_kernel,
    checked_keywords,
    leaves_of,
    parse,
    require_kernel,
    with_results,
)
from torch_ext.call import Call, TorchFunction, as_function, of_any_rank
from torch_ext.derivation import NAMESPACE, parse_name
from torch_ext.fusion import require_arithmetic
from torch_ext.generic import generic_operator
from torch_ext.mutation import mutating
from torch_ext.traced import OperatorPair, traceable

# Namespaces of torch itself, and attributes that every namespace has besides operators.
_TORCHS_NAMESPACES = frozenset({"_", "aten", "prim", "prims"})
_TORCHS_NAMES = frozenset(dir(_OpNamespace)) | frozenset(vars(_OpNamespace(NAMESPACE)))


@typing.overload
def torch_op(
    kernel: Kernel | Callable[..., Any],
    name: str | None = None,
    *,
    outputs: Sequence[str] | None = None,
    in_out: Sequence[str] = (),
    mutates: Sequence[str] = (),
    launch_dims: ShapeSpec = None,
    output_dims: ShapeSpec | Mapping[str, ShapeSpec] = None,
    defaults: Mapping[str, Any] | None = None,
    profiled: bool = False,
) -> Callable[..., Any]: ...
@typing.overload
def torch_op(
    kernel: None = None,
    name: str | None = None,
    *,
    outputs: Sequence[str] | None = None,
    in_out: Sequence[str] = (),
    mutates: Sequence[str] = (),
    launch_dims: ShapeSpec = None,
    output_dims: ShapeSpec | Mapping[str, ShapeSpec] = None,
    defaults: Mapping[str, Any] | None = None,
    profiled: bool = False,
) -> Callable[[Kernel | Callable[..., Any]], Callable[..., Any]]: ...
@checked_keywords
def torch_op(
    kernel: Kernel | Callable[..., Any] | None = None,
    name: str | None = None,
    *,
    outputs: Sequence[str] | None = None,
    in_out: Sequence[str] = (),
    mutates: Sequence[str] = (),
    launch_dims: ShapeSpec = None,
    output_dims: ShapeSpec | Mapping[str, ShapeSpec] = None,
    defaults: Mapping[str, Any] | None = None,
    profiled: bool = False,
) -> Callable[..., Any]:
    """Make a torch operator of a kernel: a function of tensors without side effects.

    The operator works eagerly, in ``torch.compile`` and ``torch.export``, under autograd to any
    order, and under the transforms of ``torch.func``. An array that every thread indexes by its
    launch index must be at least as large as the launch; other indices are not checked.

    ``torch_op`` is also a decorator of a kernel, or of the Python function that a kernel is made
    of, with or without options: ``@torch_op(output_dims=1)``.

    A generic kernel has one operator for all types: the code for given argument types is made at
    their first call. An output has the type of the first argument with the same annotation.

    Args:
        kernel: The kernel, or its Python function.
        name: The operator's name, ``name`` or ``namespace::name``. Give one if exported programs
            are to load after the kernel's source has changed. Default: the kernel's name and a
            hash of its content. Operators of a generic kernel append the types.
        outputs: Parameters that are results. Default: the arrays that the kernel writes and never
            loads; a generic kernel has no default.
        in_out: Parameters that are operands, and results that start as copies of them. Default,
            where ``outputs`` is not given: the other arrays that the kernel writes.
        mutates: In-out arrays that the operator updates in place and does not return. Autograd and
            compiled graphs treat the update as a copy into them, and gradients are those of
            torch's own in-place operations.
        launch_dims: The launch shape: a number, the name of an operand ('x' stands for its shape),
            or a tuple of numbers and extents ('x.shape[0]'); components of elements are not part
            of it. Default: the shape of the first array operand; larger arrays that threads access
            at their launch index alone are refused then.
        output_dims: The shape of every output in the same notation, or a mapping by name;
            components may be left out. Default: the launch shape, of outputs that threads write at
            their launch index.
        defaults: Values of parameters that calls may leave out, by name.
        profiled: Whether eager calls are also events with the kernel's name, file and line; they
            take longer. A profiler that records shows the operators they run in any case.

    Returns:
        A function of the kernel's parameters without ``outputs``, given by position or by name.
        An array is a tensor of the declared dtype and rank, with any strides, on the CPU or one
        CUDA device; components of elements are its last axes. A scalar is a number, or a tensor of
        its dtype without dimensions, which can be differentiated and batched. A vector or matrix
        is a sequence of numbers, or a tensor of its components. A struct, or an array of structs,
        is a mapping, a tuple of the fields in order, or an object with the fields as attributes;
        a call may also give all fields one after the other, in place of all parameters.

        The function returns a new contiguous tensor, or a tuple of them. With ``out=...`` it
        writes and returns the given tensors, of the same dtypes and shapes; such a call has no
        derivative, and allocates nothing if they are contiguous tensors of the CPU.

    Raises:
        KernelArgumentError: The parameters are not as described, or the name is taken.

    Example::

        import torch

        @kc.torch_op
        @kc.kernel
        def double(x: kc.array[float], y: kc.array[float]):
            i = kc.tid()
            y[i] = 2.0 * x[i]

        y = double(torch.ones(3))
    """
    make = partial(
        _declare,
        name=name,
        mutates=tuple(mutates),
        outputs=outputs,
        in_out=in_out,
        launch_dims=launch_dims,
        output_dims=output_dims,
        defaults=defaults,
        profiled=profiled,
    )
    return make if kernel is None else make(kernel)


def _declare(
    declared: Kernel | Callable[..., Any],
    *,
    name: str | None,
    mutates: tuple[str, ...],
    profiled: bool,
    **options: Any,
) -> TorchFunction:
    """The operator of a kernel or Python function, which pickles as this call."""
    found = as_kernel(declared) if isinstance(declared, FunctionType) else declared
    require_kernel(found)
    kernel = typing.cast("Kernel", found)
    known = Declaration.of_kernel(kernel, with_leaves=True)
    # Which arrays are updated does not say here which are in-out.
    spec = replace(parse(known, **options), mutates=known.named("mutates", mutates))
    op = kernel_function(kernel, with_results(kernel, spec, infer_in_out=True), name, profiled)
    given = {"name": name, "mutates": mutates, "profiled": profiled}
    op.remake = partial(_declare, declared, **given, **options)
    return op


def kernel_function(
    kernel: Kernel, spec: Spec, name: str | None = None, profiled: bool = False
) -> TorchFunction:
    """What ``torch_op`` returns, of a kernel under a contract that names its outputs."""
    if not kernel.is_generic:
        return operator_function(bound_kernel(kernel.current(), spec), name, profiled)[0]

    def specialise(chosen: Kernel) -> TorchFunction:
        types = re.sub(r"\W+", "_", "_".join(str(p.type) for p in chosen.parameters)).strip("_")
        return kernel_function(chosen, spec, None if name is None else f"{name}_{types}", profiled)

    return generic_function(kernel, spec, specialise)


def generic_function(
    kernel: Kernel, spec: Spec, specialise: Callable[[Kernel], Callable[..., Any]]
) -> TorchFunction:
    """The operator of a generic kernel, which calls what ``specialise`` makes for given types."""
    traced, entry, arguments = generic_operator(kernel, spec, specialise)
    return as_function(kernel.pyfunc, arguments, traced, entry)


def operator_function(
    bound: BoundKernel, name: str | None = None, profiled: bool = False
) -> tuple[TorchFunction, Callable[..., Any]]:
    """The operator of a kernel under a contract, and what runs outside of graphs."""
    fuse, arguments = bound.spec.fuse, bound.arguments
    named = leaves_of(bound.kernel, bound.spec.mutates)
    mutates = tuple(leaf for leaf in named if leaf not in bound.leaves.read)

    def checked(operation: Operation) -> Operation:
        require_arithmetic(operation, fuse)
        return operation

    operations = Versions(
        bound.kernel, lambda version: checked(bound.remake(version)), checked(bound.operation)
    )
    kernel, operation = operations.kernel, operations()
    qualname = None if name is None else _qualified(name, operation)
    # In-place updates return nothing to write; an operand named `out` takes precedence.
    takes_out = not mutates and "out" not in (*arguments.names, *arguments.leaves)
    call = Call(operation, arguments, qualname, takes_out, kernel.names, fuse)
    traced = traceable(
        operation,
        arguments,
        exported=lambda: OperatorPair.of(operations(), qualname, fuse),
        compiled=lambda: OperatorPair.of(operations(), None, fuse),
        takes_out=takes_out,
    )

    def make_call(version: Kernel) -> Call:
        return Call(operations(), arguments, None, takes_out, version.names, fuse)

    # Native entries compare names themselves, and leave calls to others where these have changed.
    calls = Versions(kernel, make_call, call)
    changed = calls.following(lambda call: call.in_python() or call.entry(profiled, changed))
    with_out = calls.following(lambda call: call.in_python() or call.checked) if takes_out else None
    entry = changed if profiled else call.entry(changed=changed)
    op = as_function(kernel.pyfunc, arguments, traced, entry, with_out)
    eager = entry if arguments.is_flat else op
    if bound.any_rank is not None:
        flat = of_any_rank(op, bound.any_rank, takes_out)
        eager = op = as_function(kernel.pyfunc, arguments, flat, flat)
    if mutates:  # Of tensors as calls give them: their elements in one dimension may be copies.
        updated = mutating(op, operation, arguments, mutates)
        eager = op = as_function(kernel.pyfunc, arguments, updated, updated)
    op.operators = call.operators
    return op, eager


def overload(op: Callable[..., Any]) -> OpOverload:
    """The registered operator behind what ``torch_op`` or ``kc.op`` returned.

    Its scalar parameters are numbers. In what is to be compiled, call the function instead: caches
    of torch.compile know operators by name, and a name that was given does not tell the content.
    """
    operator = operators_of(op).numbers
    _ = operator.out  # An overload of what is returned.
    return operator.public


def operators_of(op: Callable[..., Any]) -> OperatorPair:
    """The registered operators behind what ``torch_op`` or ``kc.op`` returned."""
    function = op.torch if isinstance(op, Op) else op
    found = function.operators if isinstance(function, TorchFunction) else None
    if found is None:
        raise KernelArgumentError(
            f"expected an operator that torch registers once, found {op!r}",
            remedy="give what torch_op or kc.op made of one kernel: generic kernels, functions and "
            "extents that a callable decides have an operator per type, program or shape",
        )
    return found


def _qualified(name: object, operation: Operation) -> str:
    parts = name.split("::") if isinstance(name, str) else []
    if not 1 <= len(parts) <= 2 or not all(
        part.isascii() and part.isidentifier() and not keyword.iskeyword(part) for part in parts
    ):
        raise KernelArgumentError(
            f"torch_op: expected a name such as 'op' or 'namespace::op', found {name!r}",
            operation.func.loc,
            "use ASCII letters, digits and underscores, and no keyword",
        )
    namespace, op = parts if len(parts) == 2 else (NAMESPACE, parts[0])
    if (
        namespace in _TORCHS_NAMESPACES
        or not isinstance(getattr(torch.ops, namespace), _OpNamespace)
        or op in _TORCHS_NAMES
        or ((parsed := parse_name(op)) is not None and parsed.derivations)
    ):
        raise KernelArgumentError(
            f"torch_op: the name '{name}' is reserved",
            operation.func.loc,
            "use a namespace of your own, for example 'mylib::op'",
        )
    return f"{namespace}::{op}"
