"""Calls of torch_op in Python that torch.compile and torch.export can follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from kernelcore import uint64
from kernelcore.operators import SCALARS, Arguments, Fuse, Operation, Scalar, element_type
from torch_ext import fusion
from torch_ext.check import number_error
from torch_ext.derivation import NAMESPACE
from torch_ext.dtype import dtype_to_torch, is_wide, tensor_from_number, tensor_from_symbol
from torch_ext.graph_marks import constant
from torch_ext.operator import TorchOperator
from torch_ext.register import root_operation, root_operator

_NUMBERS: dict[str, tuple[type, ...]] = {
    "bool": (bool, torch.SymBool),
    "int": (int, torch.SymInt),
    "uint": (int, torch.SymInt),
    "float": (float, int, torch.SymFloat, torch.SymInt),
}


def _sources(wanted: Scalar) -> tuple[torch.dtype, ...]:
    """The dtypes of NumPy scalars, whose value is unknown, that convert without loss of range."""
    if wanted.kind == "bool":
        return ()
    if wanted.is_float:
        return tuple(dtype_to_torch(s) for s in SCALARS if s.kind != "bool")
    low, high = wanted.limits
    integers = (s for s in SCALARS if s.is_integer)
    return tuple(dtype_to_torch(s) for s in integers if low <= s.limits[0] and s.limits[1] <= high)


def _is_known(number: Any) -> bool:
    """Whether ``number`` has one value in a graph; a tensor, whose value no graph has, counts."""
    if not isinstance(number, (int, float, torch.SymInt, torch.SymFloat)):
        return True
    # Imported wherever torch.compile captures, which is where this runs.
    shapes: Any = torch.fx.experimental.symbolic_shapes  # pyright: ignore
    return shapes.has_static_value(number)


def _is_exporting_by_flag() -> bool:
    return torch.compiler._is_exporting_flag


# Dynamo of older versions takes the public function for true.
_HAS_EXACT_EXPORTING = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13)
_is_exporting = torch.compiler.is_exporting if _HAS_EXACT_EXPORTING else _is_exporting_by_flag


class OperatorPair(NamedTuple):
    """The operators of one operation: scalars are numbers to one, tensors to the other."""

    numbers: TorchOperator
    tensors: TorchOperator

    @staticmethod
    def of(operation: Operation, qualname: str | None = None, fuse: Fuse = False) -> OperatorPair:
        """The operators called ``qualname``, by default as their content is."""
        numbers = root_operator(operation, False, qualname, fuse)
        if all(o.is_size or not o.is_number(False) for o in operation.operands):
            return OperatorPair(numbers, numbers)
        return OperatorPair(numbers, root_operator(operation, True, qualname, fuse))


def traceable(
    operation: Operation,
    arguments: Arguments,
    *,
    exported: Callable[[], OperatorPair],
    compiled: Callable[[], OperatorPair],
    takes_out: bool = False,
) -> Callable[..., Any]:
    """Any call, in Python that torch.compile can follow; the fake kernel checks tensors.

    Args:
        operation: What is called.
        arguments: How calls give its operands.
        exported: The operators that exported programs name, of the current version of the kernel.
        compiled: Those that other graphs name. Caches know operators by name only, so these names
            must tell the content.
        takes_out: Whether ``out`` may be given.
    """
    flat = arguments.flattened()
    root = compiled().numbers.origin.root
    scalar = {
        i: _scalar_rule(root, i, o.type)
        for i, o in enumerate(operation.operands)
        if isinstance(o.type, Scalar) and not o.is_size
    }
    composite = {
        i: _composite_rule(_scalar_rule(root, i, element_type(o.type)))
        for i, o in enumerate(operation.operands)
        if operation.is_composite(i)
    }
    floats = [i for i in scalar if element_type(operation.operands[i].type).is_float]
    arrays = [i for i, o in enumerate(operation.operands) if not o.is_number(False)]
    arrays = [i for i in arrays if i not in composite]
    # Names alone: torch.compile sets a guard on everything that it reads here.
    in_export, in_compile = (
        tuple(_by_name(pair, k) for k in range(2)) for pair in (exported, compiled)
    )
    out_in_export, out_in_compile = (
        tuple(_out_by_name(pair, k) for k in range(2)) for pair in (exported, compiled)
    )
    is_exporting = _is_exporting

    def call(*args: Any, **kwargs: Any) -> Any:
        numbers, tensors = in_export if is_exporting() else in_compile
        named: dict[str, Any] = {}
        if takes_out and "out" in kwargs:
            kwargs = dict(kwargs)
            out = kwargs.pop("out")
            if out is not None:
                numbers, tensors = out_in_export if is_exporting() else out_in_compile
                named["out"] = out
        given = flat(args, kwargs)
        if given is None:
            return numbers(*args, **kwargs, **named)  # Torch says what is wrong.
        # Where the arrays are: a graph of a device that has tensors of the CPU is not captured.
        places = [a.device for i, a in enumerate(given) if i in arrays and hasattr(a, "device")]
        place = places[0] if places else torch.device("cpu")
        given = [scalar[i](a, None) if i in scalar else a for i, a in enumerate(given)]
        # In an operator's schema a float has one value, so a graph that gives it serves no other.
        is_open = not is_exporting() and not all(_is_known(given[i]) for i in floats)
        given = [composite[i](a, place) if i in composite else a for i, a in enumerate(given)]
        if not is_open and not any(isinstance(given[i], torch.Tensor) for i in scalar):
            return numbers(*given, **named)
        given = [scalar[i](a, place) if i in scalar else a for i, a in enumerate(given)]
        return tensors(*given, **named)

    return call


def _by_name(pair: Callable[[], OperatorPair], k: int) -> Callable[..., Any]:
    """A call of one of a pair of operators, which is registered when a graph first has it."""

    @constant
    def register() -> tuple[str, ...]:
        operator = pair()[k]
        if operator.origin.fuse:
            fusion.mark_table()
        _ = operator.public
        return tuple(operator.qualname.split("::"))

    def call(*args: Any, **kwargs: Any) -> Any:
        namespace, name = register()
        return getattr(getattr(torch.ops, namespace), name).default(*args, **kwargs)

    return call


def _out_by_name(pair: Callable[[], OperatorPair], k: int) -> Callable[..., Any]:
    """As ``_by_name``, of the overload that takes ``out``, a tensor or one per result."""

    @constant
    def register() -> tuple[str, ...]:
        operator = pair()[k]
        return (*operator.qualname.split("::"), *operator.out.names)

    def call(*args: Any, out: Any, **kwargs: Any) -> Any:
        namespace, name, *names = register()
        outs = (out,) if len(names) == 1 else tuple(out)
        named = dict(zip(names, outs, strict=True))
        return getattr(getattr(torch.ops, namespace), name).out(*args, **kwargs, **named)

    return call


def _scalar_rule(root: str, index: int, type_: Scalar) -> Callable[[Any, torch.device | None], Any]:
    """A function from an argument for scalar ``index`` to a tensor in a place, or to a number."""
    dtype = dtype_to_torch(type_)
    sources, numbers = _sources(type_), _NUMBERS[type_.kind]
    low, high = type_.limits
    is_integer, is_uint64, is_float = type_.is_integer, type_ == uint64, type_.is_float

    def convert(arg: Any, place: torch.device | None) -> Any:
        if isinstance(arg, torch.Tensor):
            return arg
        if isinstance(arg, (np.ndarray, np.generic)):  # To torch.compile, both are one.
            tensor = torch.as_tensor(arg)
            if tensor.dtype not in sources:
                _refuse(root, index, f"a NumPy value of {tensor.dtype}")
            return tensor.to(dtype)
        if not isinstance(arg, numbers):
            _refuse(root, index, f"{arg!r} of {type(arg)}")
        if place is None and not (is_uint64 and is_wide(arg)):
            return arg  # The fake kernel and native code check the range.
        if is_float and not _is_known(arg):
            return tensor_from_symbol(arg, dtype, place)
        if is_integer and not low <= arg <= high:
            _refuse(root, index, f"{arg}")
        return tensor_from_number(arg, dtype, "cpu" if place is None else place)

    return convert


def _composite_rule(
    component: Callable[[Any, torch.device], Any],
) -> Callable[[Any, torch.device], Any]:
    """A function from an argument for a composite, whose components follow a rule, to a tensor."""

    def convert(arg: Any, place: torch.device) -> Any:
        if isinstance(arg, (int, float)):  # Perhaps a symbol, which has no attributes.
            return component(arg, place)
        if hasattr(arg, "kernel_type"):  # A value of the language.
            return component(arg.__array__(copy=True), place)
        if not isinstance(arg, (list, tuple)):
            return component(arg, place)
        return torch.stack([convert(one, place) for one in arg])

    return convert


def _raise_number_error(root: str, operand: int, found: str) -> None:
    raise number_error(root_operation(root), operand, found)


# An operator, since torch.compile cannot follow Python that makes an error of ours.
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_library.define("refuse_number(str root, int operand, str found) -> ()")
_library.impl("refuse_number", _raise_number_error, "CompositeExplicitAutograd")
torch.library.register_fake(f"{NAMESPACE}::refuse_number", _raise_number_error, lib=_library)
_refuse = torch.ops.kernelcore.refuse_number.default
