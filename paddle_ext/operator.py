"""paddle_op: a kernel as a differentiable function of Paddle tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import ref

import paddle
from paddle.autograd import PyLayer
from paddle.jit.dy2static.py_layer import StaticPyLayerContext
from paddle.static.nn import static_pylayer

from kernelcore import Kernel
from kernelcore.base.errors import KernelGradError
from kernelcore.operators import (
    BoundKernel,
    BoundKernels,
    Declaration,
    ExtremumOperations,
    Operation,
    OperatorFunction,
    Scalar,
    ShapeSpec,
    Spec,
    TieWeights,
    cached_property,
    checked_keywords,
    derive,
    element_type,
    extremum_operations,
    find_ties,
    parse,
    require_kernel,
    with_results,
)
from paddle_ext.dtype import dtype_from_paddle, dtype_to_paddle
from paddle_ext.execute import check_values, declared_number, merged, run_operation
from paddle_ext.program import bits_of, static_operator

_Value = paddle.pir.Value  # pyright: ignore[reportPrivateImportUsage]


@checked_keywords
def paddle_op(
    kernel: Kernel,
    *,
    outputs: Sequence[str] | None = None,
    in_out: Sequence[str] = (),
    launch_dims: ShapeSpec = None,
    output_dims: ShapeSpec | Mapping[str, ShapeSpec] = None,
) -> Callable[..., Any]:
    """Make a function of Paddle tensors of a kernel, without side effects.

    It works in dygraph mode, differentiably to any order that Paddle's ``PyLayer`` has, and inside
    ``paddle.jit.to_static``, with first derivatives. ``paddle.jit.save`` refuses such programs:
    Paddle cannot store operators that are written in Python.

    Args:
        kernel: The kernel.
        outputs: Parameters that are results. Default: the arrays that it writes and never loads.
        in_out: Parameters that are operands, and results that start as copies of them. Default,
            where ``outputs`` is not given: the other arrays that it writes.
        launch_dims: The launch shape: a number, the name of an operand ('x', its shape), or a
            tuple of numbers and extents ('x.shape[0]'). Default: that of the first array operand;
            larger arrays that threads access at their launch index alone are refused then.
        output_dims: Likewise the shape of every output, or a mapping by name; components may be
            left out. Default: the launch shape, of outputs written at the launch index.

    Returns:
        A function of the kernel's parameters without ``outputs``, by position or by name: tensors
        on the CPU of the declared dtype and rank with any strides; for a scalar a number or a
        tensor without dimensions; for a vector or a matrix a sequence of numbers or a tensor of
        its components; for a struct a mapping, a tuple of the fields in order, or an object with
        these as attributes. It returns a new contiguous tensor, or a tuple of them.

    Raises:
        KernelArgumentError: The parameters are not as described.
    """
    require_kernel(kernel)
    spec = parse(
        Declaration.of_kernel(kernel, with_leaves=True),
        outputs=outputs,
        in_out=in_out,
        launch_dims=launch_dims,
        output_dims=output_dims,
    )
    return kernel_function(kernel, with_results(kernel.current(), spec, infer_in_out=True))


def kernel_function(kernel: Kernel, spec: Spec) -> PaddleFunction:
    """What ``paddle_op`` returns, of a kernel under a contract that names its outputs."""
    made = PaddleFunction(kernel, spec)
    made.remake = partial(kernel_function, kernel, spec)
    return made


class PaddleFunction(OperatorFunction):
    """An operator of Paddle, of a kernel under a contract."""

    framework = "Paddle"

    def __init__(self, kernel: Kernel, spec: Spec) -> None:
        # Paddle's translators to static programs leave what has these marks as it is.
        vars(self).update(vars(type(self).__call__))
        self._kernels = BoundKernels(
            kernel, spec, lambda bound: (bound, PaddleOperator(bound.operation)), _number_of
        )
        super().__init__(kernel.pyfunc, self._kernels.arguments)

    @paddle.jit.marker.unified
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _, found, _ = self._run(args, kwargs)
        return found[0] if len(found) == 1 else tuple(found)

    def whole(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """One result per parameter; a struct is a dictionary."""
        bound, found, operands = self._run(args, kwargs)
        return bound.unflatten(found, operands)

    def _run(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[BoundKernel, Sequence[Any], Sequence[Any]]:
        """The kernel for a call, the results of its operation, and the operands."""
        (bound, operator), operands, shape = self._kernels.bind(args, kwargs)
        return bound, bound.restored(operator(operands), shape), operands


class PaddleOperator:
    """An Operation as a function of one value per operand; what it derives are others."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        # By the bits of the numbers among the operands, with None for tensors.
        self._static: dict[tuple[bytes | None, ...], Callable[..., Any]] = {}
        self._derived: dict[Any, tuple[PaddleOperator, tuple[int, ...]]] = {}
        # What stands for it in derivatives, and the operator that counts.
        self._extremum_parts: dict[ExtremumOperations, tuple[PaddleOperator, PaddleOperator]] = {}

    def __call__(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The visible results."""
        given = [self._operand(i, arg) for i, arg in enumerate(args)]
        wanted = self._wanted(given) if paddle.is_grad_enabled() else ()
        if not paddle.in_dynamic_mode():
            given = [
                a if _is_tensor(a) else declared_number(self.operation, i, a)
                for i, a in enumerate(given)
            ]
            # Paddle ends the process where an error leaves what infers shapes.
            check_values(self.operation, given)
            return self._static_call(given, wanted)
        if wanted:
            return _as_tuple(self.function.apply({"given": given}, [given[i] for i in wanted]))
        return run_operation(self.operation, given)

    def run(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The visible results, which are not differentiated; in a static program, its operator."""
        if paddle.in_dynamic_mode():
            return run_operation(self.operation, args)
        numbers = _numbers(args)
        key = bits_of(numbers)
        if key not in self._static:
            self._static[key] = static_operator(self.operation, numbers)
        return _as_tuple(self._static[key](*(a for a in args if _is_tensor(a))))

    def vjp(self, wrt: tuple[int, ...], seeds: tuple[int, ...]) -> tuple[PaddleOperator, Any]:
        """The operator of the cotangents of ``wrt``, and for which of them it has results."""
        key = (wrt, seeds)
        if key not in self._derived:
            derived = derive.vjp(self.operation, wrt, seeds)
            self._derived[key] = PaddleOperator(derived.operation), derived.produced
        return self._derived[key]

    @cached_property
    def function(self) -> type[PyLayer]:
        """The differentiable form, of all operands and a list of those with gradients.

        Of a list Paddle takes gradients that it does not want; of separate arguments it insists on
        None there, which ``backward`` cannot know. In a dict it looks for no tensors.
        """
        outputs = self.operation.outputs

        def forward(ctx: Any, operands: dict[str, list[Any]], wanted: list[Any]) -> Any:
            given = operands["given"]
            # A saved tensor does not tell any more.
            ctx.wanted = self._wanted(given)
            ctx.numbers = _numbers(given)
            tensors = [a for a in given if _is_tensor(a)]
            ctx.save_for_backward(*tensors)
            ctx.versions = [a.inplace_version for a in tensors]
            ctx.originals = [ref(a) for a in tensors]
            found = self.run(given)
            whole = [a for a, r in zip(found, outputs, strict=True) if not r.type.dtype.is_float]
            if whole:
                ctx.mark_non_differentiable(*whole)
            return found[0] if len(found) == 1 else found

        def backward(ctx: Any, *cotangents: Any) -> Any:
            tensors = ctx.saved_tensor()
            given = merged(ctx.numbers, tensors)
            # Unlike Paddle's own operators, PyLayer does not compare versions. Those that hooks
            # for saved tensors make are others.
            versions = [
                a.inplace_version if original() is a else version
                for a, original, version in zip(tensors, ctx.originals, ctx.versions, strict=True)
            ]
            if versions != ctx.versions:
                found, expected = merged(ctx.numbers, versions), merged(ctx.numbers, ctx.versions)
                self._require_unchanged(ctx.wanted, found, expected)
            grads = self._gradients(ctx.wanted, given, cotangents)
            return [grads[i] for i in ctx.wanted]

        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type(self.operation.func.name, (PyLayer,), members)

    def _static_call(self, given: Sequence[Any], wanted: tuple[int, ...]) -> tuple[Any, ...]:
        """The call in a static program, with the cotangents of ``wanted``."""
        found = self._static_pylayer(given, wanted) if wanted else self.run(given)
        seeds = _seeds(self.operation) if wanted else ()
        for j, value in enumerate(found):
            # Operators that are written in Python inherit it from their operands, also under
            # ``no_grad``.
            value.stop_gradient = j not in seeds
        return found

    def _static_pylayer(self, given: Sequence[Any], wanted: tuple[int, ...]) -> tuple[Any, ...]:
        """An operator of a static program with a backward for the operands ``wanted``."""
        # One cotangent for each: Paddle takes the operands of the operator for a set.
        distinct, places = _distinct(given)
        context = StaticPyLayerContext()

        def operands(tensors: Sequence[Any]) -> list[Any]:
            return [tensors[places[i]] if i in places else a for i, a in enumerate(given)]

        def forward(*tensors: Any) -> Any:
            context.save_for_backward(*tensors)
            found = self.run(operands(tensors))
            return found[0] if len(found) == 1 else found

        def backward(*cotangents: Any) -> Any:
            saved: Any = context.saved_tensor()
            listed: list[Any] = [None] * len(distinct)
            for i, grad in self._gradients(wanted, operands(saved), cotangents).items():
                known = listed[places[i]]
                listed[places[i]] = grad if known is None else known + grad
            return listed[0] if len(listed) == 1 else tuple(listed)

        return _as_tuple(static_pylayer(forward, distinct, backward))

    def _wanted(self, given: Sequence[Any]) -> tuple[int, ...]:
        """The operands that get a cotangent."""
        if not any(result.type.dtype.is_float for result in self.operation.outputs):
            return ()
        return tuple(
            i
            for i, (arg, operand) in enumerate(zip(given, self.operation.operands, strict=True))
            if _is_tensor(arg) and not arg.stop_gradient and element_type(operand.type).is_float
        )

    def _gradients(
        self, wanted: tuple[int, ...], given: Sequence[Any], cotangents: Sequence[Any]
    ) -> dict[int, Any]:
        """The cotangents of the operands ``wanted``."""
        seeds = _seeds(self.operation)
        base, known = self._selected(wanted, given)
        adjoint, produced = base.vjp(wanted, seeds)
        operands = [*given, *known.operands, *(cotangents[j] for j in seeds)]
        # Static programs have no second derivatives of operators that are written in Python.
        found = adjoint(operands) if paddle.in_dynamic_mode() else adjoint.run(operands)
        grads = dict(zip(produced, found, strict=True))
        grads |= {i: grads[i] * share for i, share in known.start.items() if i in grads}
        return {i: grads[i] if i in grads else paddle.zeros_like(given[i]) for i in wanted}

    def _require_unchanged(
        self, wanted: tuple[int, ...], found: Sequence[Any], expected: Sequence[Any]
    ) -> None:
        """Refuse unexpected versions of tensors that the cotangents of ``wanted`` depend on.

        Raises:
            KernelGradError: Naming the parameter. Paddle raises it as an error of its own.
        """
        operation = self.operation
        read = range(len(expected))
        # With atomic minima or maxima the kernel itself runs again, on all operands.
        if extremum_operations(operation, wanted) is None:
            adjoint = self.vjp(wanted, _seeds(operation))[0].operation
            read = [i for i in read if adjoint.param_of_operand(i) is not None]
        for index in read:
            if found[index] != expected[index]:
                error = operation.argument_error(
                    index,
                    f"expected the tensor as the call found it (version {expected[index]}), found "
                    f"it changed in place since (version {found[index]})",
                    "change a copy of it, x.clone(), or call backward before",
                )
                raise KernelGradError(error.message, error.loc, error.remedy)

    def _selected(
        self, wanted: tuple[int, ...], given: Sequence[Any]
    ) -> tuple[PaddleOperator, TieWeights]:
        """The operator to differentiate with respect to ``wanted``, and its constant operands.

        The operator itself, unless it takes atomic minima or maxima.
        """
        chosen = extremum_operations(self.operation, wanted)
        if chosen is None:
            return self, TieWeights([], {})
        if chosen not in self._extremum_parts:
            self._extremum_parts[chosen] = (
                PaddleOperator(chosen.weighted),
                PaddleOperator(chosen.count),
            )
        weighted, counts = self._extremum_parts[chosen]
        fixed = [a.detach() if _is_tensor(a) else a for a in given]

        def run(operation: Operation, args: Sequence[Any]) -> tuple[Any, ...]:
            return counts.run(args)

        known = find_ties(chosen, fixed, self.run(fixed), run, lambda x, like: x.astype(like.dtype))
        return weighted, known

    def _operand(self, index: int, arg: Any) -> Any:
        operation = self.operation
        type_ = operation.operands[index].type
        if _is_tensor(arg):
            return arg
        if operation.is_composite(index):
            values = operation.composite(index, arg)
            return paddle.to_tensor(values, dtype=dtype_to_paddle(element_type(type_)))
        if isinstance(type_, Scalar):
            return arg
        raise operation.argument_error(
            index,
            f"expected a Paddle tensor, found {type(arg).__name__}",
            "convert it with paddle.to_tensor or to_paddle",
        )


def _seeds(operation: Operation) -> tuple[int, ...]:
    """The results that have cotangents."""
    return tuple(j for j, r in enumerate(operation.outputs) if r.type.dtype.is_float)


def _number_of(arg: Any) -> Any:
    """``arg``, or a number of its type where it is a tensor without dimensions."""
    if _is_tensor(arg) and not arg.shape:
        return dtype_from_paddle(arg.dtype).numpy.type(0)
    return arg


def _is_tensor(value: Any) -> bool:
    return isinstance(value, paddle.Tensor | _Value)


def _numbers(given: Sequence[Any]) -> tuple[Any, ...]:
    """The numbers among operands, and None for tensors."""
    return tuple(None if _is_tensor(a) else a for a in given)


def _distinct(given: Sequence[Any]) -> tuple[list[Any], dict[int, int]]:
    """The values among operands, once each, and the position of each tensor operand among them."""
    values: list[Any] = []
    places: dict[int, int] = {}
    for i, arg in enumerate(given):
        if _is_tensor(arg):
            places[i] = next((k for k, v in enumerate(values) if v.is_same(arg)), len(values))
            if places[i] == len(values):
                values.append(arg)
    return values, places


def _as_tuple(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, list | tuple) else (found,)
