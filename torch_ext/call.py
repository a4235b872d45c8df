"""The Python slow path of an operator call: everything the native fast path declines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._C._functorch import (  # pyright: ignore[reportMissingModuleSource]
    is_functorch_wrapped_tensor,
)
from torch.autograd import forward_ad

from kernelcore import uint64
from kernelcore.base.errors import KernelError
from kernelcore.operators import (
    AnyRank,
    Arguments,
    BoundNames,
    Fuse,
    Operation,
    OperatorFunction,
    Scalar,
    element_type,
    run_in_python,
    runs_in_python,
    warn_of_compiled,
)
from torch_ext import native
from torch_ext.check import PLAIN_TENSORS, check_arguments, check_number, check_numbers
from torch_ext.dtype import (
    dtype_to_torch,
    is_wide,
    tensor_from_array,
    tensor_from_number,
    tensor_from_symbol,
)
from torch_ext.graph_marks import opaque
from torch_ext.operator import TorchOperator
from torch_ext.out import flat_outs
from torch_ext.sharding import add_pending
from torch_ext.traced import OperatorPair
from torch_ext.vmap import batched_call


class TorchFunction(OperatorFunction):
    """An operator of torch.

    Every operator has a subclass with a call of its own: torch.compile counts how often it compiles
    a code object.

    Attributes:
        operators: The registered operators; None without one or with several.
    """

    framework = "torch"
    operators: OperatorPair | None = None
    _torchdynamo_orig_callable: Callable[..., Any]
    _torchdynamo_wrapper_id: int


def as_function(
    pyfunc: Callable[..., Any],
    arguments: Arguments,
    traced: Callable[..., Any],
    entry: Callable[..., Any],
    with_out: Callable[..., Any] | None = None,
) -> TorchFunction:
    """An operator named as ``pyfunc``: ``traced`` while a graph is captured, else ``entry``.

    ``entry`` takes one argument per operand, or if that is the same, whatever a call gives; then
    ``with_out`` is not needed, which takes a call that gives ``out``.
    """
    # `torch.compiler.is_compiling`, without its two calls of Python functions.
    compiler, is_traced = torch.compiler, torch.compiler.is_dynamo_compiling
    bind = arguments.bind

    # torch.compile follows Python only; the rest of the world need not pay for it.
    def op(_: TorchFunction, *args: Any, **kwargs: Any) -> Any:
        if is_traced() or compiler._is_compiling_flag:
            return traced(*args, **kwargs)
        return entry(*args, **kwargs) if kwargs else entry(*args)

    def op_of_structs(_: TorchFunction, *args: Any, **kwargs: Any) -> Any:
        if is_traced() or compiler._is_compiling_flag:
            return traced(*args, **kwargs)
        if with_out is not None and "out" in kwargs:
            return with_out(*args, **kwargs)
        return entry(*bind(args, kwargs))

    call = op if arguments.is_flat else op_of_structs
    call.__code__ = call.__code__.replace(co_name=pyfunc.__name__)
    own = type("TorchFunction", (TorchFunction,), {"__call__": call})
    made = own(pyfunc, arguments)
    # What torch.compile compiles if it is given the operator: all objects that are called share one
    # code object otherwise.
    made._torchdynamo_orig_callable = call.__get__(made)
    made._torchdynamo_wrapper_id = id(made)
    return made


def of_any_rank(op: Callable[..., Any], any_rank: AnyRank, takes_out: bool) -> Callable[..., Any]:
    """``op``, some of whose arguments are tensors of any rank; torch.compile follows it.

    With ``takes_out``, calls may give tensors of that rank for the results.
    """
    is_single = len(any_rank.results) == 1

    def flat(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out") if takes_out else None
        if out is not None:
            return write(args, {n: v for n, v in kwargs.items() if n != "out"}, out)
        given, named, shape = any_rank.flatten(args, kwargs)
        found = op(*given, **named)
        made = any_rank.restore((found,) if is_single else found, shape)
        return made[0] if is_single else tuple(made)

    def write(args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> Any:
        given, named, shape = any_rank.flatten(args, kwargs)
        outs = (out,) if is_single else out
        if shape is None or len(shape) == 1:
            return op(*given, **named, out=out)
        if not isinstance(outs, tuple | list) or len(outs) != len(any_rank.results):
            return op(*given, **named, out=out)  # It says what is wrong.
        targets = flat_outs(any_rank, outs, shape)
        op(*given, **named, out=targets[0] if is_single else tuple(targets))
        for one, target in zip(outs, targets, strict=True):
            if target is not one and not one.is_contiguous():
                one.copy_(target.reshape(one.shape))
        return out if is_single else tuple(outs)

    return flat


def recorded(run: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
    """A form of ``run``, which takes one argument per operand, for captured graphs.

    torch.compile does not follow ``run``: it records which operators it calls with fake tensors.
    """
    mark = opaque(run)
    flat = arguments.flattened()

    def traced(*args: Any, **kwargs: Any) -> Any:
        mark()
        given = flat(args, kwargs)
        return run(*(args if given is None else given))

    return traced


def _recorded_call(call: Callable[..., Any], label: str) -> Callable[..., Any]:
    """``call``, which torch's profiler shows as ``label`` around the operator of its content."""
    record = torch.profiler.record_function

    def recorded_call(*args: Any, **kwargs: Any) -> Any:
        with record(label):
            return call(*args, **kwargs)

    return recorded_call


class Call:
    """Calls of an operator that native code does not take.

    Scalars are numbers to one operator; where one of them is a tensor, all are tensors to another.
    """

    def __init__(
        self,
        operation: Operation,
        arguments: Arguments,
        qualname: str | None,
        takes_out: bool = False,
        names: BoundNames | None = None,
        fuse: Fuse = False,
    ) -> None:
        self.operation = operation
        self.takes_out = takes_out
        self.names = names
        self.arguments = arguments
        self.values = {
            i: o.type
            for i, o in enumerate(operation.operands)
            if isinstance(o.type, Scalar) and not o.is_size
        }
        self.composites = {
            i: dtype_to_torch(element_type(o.type))
            for i, o in enumerate(operation.operands)
            if operation.is_composite(i)
        }
        # Operands that may be numbers which torch's schemas do not have.
        self.wide = [i for i, dtype in self.values.items() if dtype == uint64]
        self.operators = OperatorPair.of(operation, qualname, fuse)
        self.numbers, self.tensors = self.operators
        if qualname is not None:  # Programs that name it may be loaded without Python.
            for operator in self.operators:
                _ = operator.out

    @staticmethod
    def of(operation: Operation) -> Call:
        """Calls of ``operation`` with one argument per operand."""
        func = operation.func
        arguments = Arguments.of_names(func.name, func.loc, operation.argument_names)
        return Call(operation, arguments, None)

    def entry(
        self,
        through_dispatcher: bool = False,
        changed: Callable[..., Any] | None = None,
    ) -> Callable[..., Any]:
        """Native code, which comes here with all that it does not take, or always comes here.

        It calls ``changed`` where the names around the kernel stand for something else.
        """
        slow = self.checked if self.arguments.is_flat else self.of_operands
        if through_dispatcher:
            return _recorded_call(slow, self.operation.func.label)
        name = self.operation.func.name
        differentiated = self.differentiated if self.wide else self.numbers.differentiated
        names = self.names if changed is not None else None
        checked = None if names is None else names.checked
        return native.fast_entry(self.numbers.native, name, differentiated, slow, checked, changed)

    def in_python(self) -> Callable[..., Any] | None:
        """What runs calls in Python mode; None in other modes."""
        return self.through_python if runs_in_python(self.operation) else None

    def through_python(self, *args: Any, **kwargs: Any) -> Any:
        """A call in Python mode.

        Where a derivative is recorded or results are written to given tensors, Python runs the
        kernel first, and the results are those of compiled code. So they are under transforms, and
        on other devices than the CPU, where Python does not run it.
        """
        options = {"out": kwargs.pop("out")} if self.takes_out and "out" in kwargs else {}
        bound = self.arguments.bind(args, kwargs)
        operator, given = self.prepared(bound)
        tensors = [a for a in given if isinstance(a, torch.Tensor)]
        if not all(map(_is_plain, tensors)):
            warn_of_compiled(
                self.operation.func.name, "a transform of torch", "call it on plain tensors"
            )
            return self.checked(*args, **options, **kwargs)
        if any(not a.is_cpu for a in tensors):
            return self.checked(*args, **options, **kwargs)
        check_arguments(self.operation, operator.tensor_values, given)
        values = [a.detach() if isinstance(a, torch.Tensor) else a for a in given]
        found = run_in_python(self.operation, values)
        records = forward_ad._current_level >= 0 or (
            torch.is_grad_enabled() and any(a.requires_grad for a in tensors)
        )
        if records or options.get("out") is not None:
            return self.checked(*args, **options, **kwargs)
        results = [
            tensor_from_array(a, dtype_to_torch(r.type.dtype))
            for a, r in zip(found, self.operation.outputs, strict=True)
        ]
        return results[0] if len(results) == 1 else tuple(results)

    def differentiated(self, *args: Any) -> Any:
        """A call on tensors that require grad, with numbers that may be wide."""
        if any(is_wide(args[i]) for i in self.wide):
            return self.of_operands(*args)
        return self.numbers.differentiated(*args)

    def checked(self, *args: Any, **kwargs: Any) -> Any:
        """Any call."""
        if self.takes_out and "out" in kwargs:
            out = kwargs.pop("out")
            if out is not None:
                return self.write(self.arguments.bind(args, kwargs), out)
        return self.of_operands(*self.arguments.bind(args, kwargs))

    def of_operands(self, *args: Any) -> Any:
        """A call with one argument per operand."""
        return self.run(*self.prepared(args))

    def prepared(self, args: Sequence[Any]) -> tuple[TorchOperator, list[Any]]:
        """The operator for one argument per operand, and what it takes for them."""
        given = list(args)
        for i, dtype in self.composites.items():
            if not isinstance(given[i], torch.Tensor):
                given[i] = tensor_from_array(self.operation.composite(i, given[i]), dtype)
        if any(isinstance(given[i], torch.Tensor | torch.SymFloat) for i in self.values) or any(
            is_wide(given[i]) for i in self.wide
        ):
            for i, dtype in self.values.items():
                if not isinstance(given[i], torch.Tensor):
                    check_number(self.operation, i, given[i], dtype)
                    made = (
                        tensor_from_symbol
                        if isinstance(given[i], torch.SymFloat)
                        else tensor_from_number
                    )
                    given[i] = made(given[i], dtype_to_torch(dtype))
            return self.tensors, given
        return self.numbers, given

    def run(self, operator: TorchOperator, args: Sequence[Any]) -> Any:
        add_pending()
        if not torch._C._is_any_autocast_enabled():  # Else dtypes may change, then are checked.
            found = self.batched(operator, args)
            if found is not NotImplemented:
                return found
            check_arguments(self.operation, operator.tensor_values, args)
        operator.prepare(args)
        return operator.public(*args)

    def batched(self, operator: TorchOperator, args: Sequence[Any]) -> Any:
        """What ``batched_call`` returns. Its errors are of a batch, those raised of an instance."""
        check_numbers(self.operation, operator.tensor_values, args)
        try:
            return batched_call(operator, args)
        except (KernelError, AttributeError, RuntimeError, TypeError) as error:
            refused = error
        check_arguments(self.operation, operator.tensor_values, args)
        raise refused

    def write(self, args: Sequence[Any], out: Any) -> Any:
        """As ``of_operands``; the results are written to ``out``."""
        operator, given = self.prepared(args)
        add_pending()
        operator.prepare(given)
        return operator.out(given, out)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` has elements that NumPy reads."""
    return type(tensor) in PLAIN_TENSORS and not is_functorch_wrapped_tensor(tensor)
