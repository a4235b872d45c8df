"""The operators, calls and assignments of the kernel language on host values.

A number without a type, a Python one, is a literal: it takes the type of what it meets.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, cast

import numpy as np

from kernelcore.base.dataclass import replace
from kernelcore.builtins import OPS
from kernelcore.builtins.declare import Builtin
from kernelcore.builtins.library import LIBRARY
from kernelcore.builtins.reference import as_scalar, convert, is_narrow
from kernelcore.frontend.calls import compile_time, intrinsics
from kernelcore.frontend.calls.snippet import NativeFunction
from kernelcore.language.composite import Composite, value_class
from kernelcore.language.function import Function
from kernelcore.language.overload_resolution import choose
from kernelcore.language.types import Scalar, boolean, float32, int32, scalar_of, scalar_of_numpy
from kernelcore.launch.python_mode.array_view import Added, ArrayView
from kernelcore.launch.python_mode.native_call import call_native
from kernelcore.launch.python_mode.rewrite import rewritten
from kernelcore.runtime.structs import StructValue

# Without the types of operands, which type checkers miss.
_operator: Any = operator
_SYMBOLS: dict[str, Callable[[Any, Any], Any]] = {
    "add": _operator.add, "sub": _operator.sub, "mul": _operator.mul, "div": _operator.truediv,
    "pow": _operator.pow, "equal": _operator.eq, "not_equal": _operator.ne, "less": _operator.lt,
    "less_equal": _operator.le, "greater": _operator.gt, "greater_equal": _operator.ge,
    "bitand": _operator.and_, "bitor": _operator.or_, "bitxor": _operator.xor,
    "shl": _operator.lshift, "shr": _operator.rshift,
}  # fmt: skip
# Without the parameter that type checkers miss.
_TYPED: Any = np.generic
_FLOATING: Any = np.floating
_CONVERSIONS = {float: float32, int: int32, bool: boolean}
_PYTHONS_OWN: dict[Any, str] = {builtins.abs: "abs", builtins.min: "min", builtins.max: "max"}


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float) and not isinstance(value, _TYPED)


def scalar_op(name: str, args: tuple[Any, ...]) -> Any:
    """A built-in on scalars, computed and rounded as compiled code does."""
    op = OPS[name]
    classes = list(op.params.values())
    is_mixed = len(set(classes)) > 1
    pairs = list(zip(args, classes, strict=True))
    lead = next(
        (a for a, c in pairs if isinstance(a, _TYPED) and not (c == "Bool" and is_mixed)), None
    )
    if lead is None:
        has_float = any(isinstance(a, float) for a in args) or "Float" in classes
        scalar = float32 if has_float else int32
        if all(isinstance(a, bool | np.bool_) for a in args):
            scalar = boolean
    else:
        scalar = scalar_of_numpy(lead.dtype)
        assert scalar is not None
    values: list[Any] = []
    for arg, cls in pairs:
        if cls == "Bool":
            values.append(np.bool_(arg))
        elif not _is_number(arg):
            values.append(np.float32(arg) if is_narrow(scalar) and arg.dtype == scalar.numpy
                          else arg)  # fmt: skip
        elif isinstance(arg, bool):
            values.append(np.bool_(arg))
        elif isinstance(arg, float) and not scalar.is_float:
            values.append(np.float32(arg))
        elif cls == "Int" and scalar.is_float:
            values.append(np.int32(arg))
        else:
            value = as_scalar(arg, scalar)
            values.append(np.float32(value) if is_narrow(scalar) else value)
    assert op.ref is not None
    result = op.ref(*values)
    if op.result == "Bool":
        return np.bool_(result)
    is_same = lead is not None and op.result in classes
    if is_narrow(scalar) and is_same:
        return convert(np.float32(result), scalar)
    return scalar.numpy.type(result) if is_same or not isinstance(result, _TYPED) else result


def composite_op(name: str, args: tuple[Any, ...]) -> Any:
    """A built-in or an operator on every component; scalars are used for all of them."""
    model = next(a for a in args if isinstance(a, Composite)).kernel_type
    rows = [np.asarray(a).ravel() if isinstance(a, Composite) else [a] * model.size for a in args]
    found = [scalar_op(name, row) for row in zip(*rows, strict=True)]
    type_ = replace(model, dtype=boolean) if OPS[name].result == "Bool" else model
    data = np.array(found, type_.scalar.numpy).reshape(model.extents)
    return value_class(type_)._of(data)  # pyright: ignore[reportPrivateUsage]


def binary(name: str | tuple[Function, str], a: Any, b: Any) -> Any:
    """An operator between two values; a function first, if a dialect has one for them."""
    if isinstance(name, tuple):
        function, name = name
        if not any(isinstance(v, StructValue) for v in (a, b)) and function.takes(a, b):
            return _called(function, (a, b), {})
    if _is_number(a) and _is_number(b):
        if name in _SYMBOLS:
            return _SYMBOLS[name](a, b)
        if isinstance(a, float) or isinstance(b, float):
            return float(scalar_op(name, (np.float64(a), np.float64(b))))
        return int(scalar_op(name, (np.int64(a), np.int64(b))))
    if isinstance(a, StructValue) or isinstance(b, StructValue):
        own = _around(sys._getframe(1), name)  # pyright: ignore[reportPrivateUsage]
        if own is not None and own.takes(a, b):
            return _called(own, (a, b), {})
    count = isinstance(a, Composite) + isinstance(b, Composite)
    if not count and not isinstance(a, StructValue):
        return scalar_op(name, (a, b))
    if name == "mul" and count == 2 and LIBRARY["mul"].takes(a, b):
        return _called(LIBRARY["mul"], (a, b), {})
    if name in ("equal", "not_equal") or (name == "mul" and count == 2):
        return _SYMBOLS[name](a, b)
    return composite_op(name, (a, b))


def _around(frame: FrameType, name: str) -> Function | None:
    """The function that ``name`` stands for where the code of ``frame`` is written."""
    found = frame.f_locals.get(name, frame.f_globals.get(name))
    return found if isinstance(found, Function) else None


def truth(value: Any) -> Any:
    """An operand of ``and`` or ``or``: numbers are true unless zero."""
    return np.bool_(bool(value))


def chain(names: tuple[str, ...], *operands: Callable[[], Any]) -> Any:
    """Comparisons in a row."""
    left: Any = operands[0]()
    held: Any = np.bool_(True)
    for name, operand in zip(names, operands[1:], strict=True):
        right = operand()
        held = binary(name, left, right)
        if not held:
            break
        left = right
    return held


def unary(name: str, value: Any) -> Any:
    """An operator on one value."""
    if name == "logical_not":
        return np.bool_(not value)
    if isinstance(value, Composite):
        return composite_op(name, (value,))
    if _is_number(value):
        return {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert}[name](value)
    return scalar_op(name, (value,))


def copied(value: Any) -> Any:
    """``value`` with components and fields of its own; arrays stay views."""
    match value:
        case Composite():
            return type(value)._of(np.array(value))  # pyright: ignore[reportPrivateUsage]
        case StructValue():
            fields = {name: copied(getattr(value, name)) for name, _ in value.kernel_type.fields}
            return type(value).of_fields(fields)
        case tuple():
            return tuple(map(copied, cast("tuple[Any, ...]", value)))
        case _:
            return value


def declared(annotation: Any, value: Any) -> Any:
    """The value of a variable with a declared type."""
    scalar = _CONVERSIONS.get(annotation) or scalar_of(annotation)
    return scalar(value) if scalar is not None and _is_number(value) else copied(value)


def store(root: Any, path: tuple[Any, ...], value: Any) -> None:
    """Assign to a part of ``root``: an element, a component or a field."""
    step, *rest = path
    if isinstance(step, str):
        if rest:
            inner = getattr(root, step)
            store(inner, tuple(rest), value)
            value = inner
            if isinstance(inner, ArrayView):
                return
        setattr(root, step, value)
        return
    (key,) = step
    if rest:
        inner = root.part(key) if isinstance(root, ArrayView) else root[key]
        store(inner, tuple(rest), value)
        value = inner
        if isinstance(inner, ArrayView):
            return
    if isinstance(root, ArrayView):
        root.store(key, value)
    else:
        root[key] = value


def update(name: str | tuple[Function, str], root: Any, path: tuple[Any, ...], value: Any) -> None:
    """Assign an operator's result to a part of ``root``; sums in arrays are atomic."""
    place = root
    for step in path[:-1]:
        place = getattr(place, step) if isinstance(step, str) else place[step[0]]
    last = path[-1]
    if isinstance(place, ArrayView) and name in ("add", "sub") and not isinstance(last, str):

        def changed(old: Any) -> Any:
            return binary(name, old, value)

        assert isinstance(name, str)
        place.atomically(last[0], changed, Added(name, value))
        return
    old = getattr(place, last) if isinstance(last, str) else place[last[0]]
    store(root, path, binary(name, old, value))


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call what a kernel calls."""
    if function in _CONVERSIONS:
        function = _CONVERSIONS[function]
    match function:
        case Builtin() if not any(isinstance(a, StructValue | ArrayView | tuple) for a in args):
            return _built_in(cast("Any", function), args, kwargs)
        case Scalar():
            value = args[0] if args else 0
            return convert(value, function) if isinstance(value, _TYPED) else function(value)
        case Function():
            return _called(function, args, kwargs)
        case NativeFunction():
            return call_native(function, args, kwargs)
        case type() if issubclass(function, StructValue):
            names = [name for name, _ in function.kernel_type.fields]
            given = dict(zip(names, map(copied, args), strict=False))
            return function(**given, **{name: copied(v) for name, v in kwargs.items()})
        case _:
            pass
    if function is range:
        return _Range(*args)
    if compile_time.makes_zeros(function):
        return _zeros(*args, **kwargs)
    if compile_time.makes_array(function) and (at := intrinsics.host.get()) is not None:
        return at("array_at", (kwargs["ptr"], kwargs["shape"], kwargs["dtype"]))
    if function is print:
        shown = (f"{float(a):g}" if isinstance(a, (float, _FLOATING)) else a for a in args)
        print(*shown, **kwargs)
        return None
    if function in _PYTHONS_OWN and args and not isinstance(args[0], tuple):
        return call(getattr(sys.modules["kernelcore"], _PYTHONS_OWN[function]), *args)
    return function(*args, **kwargs)


def _built_in(function: Builtin[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A built-in on scalars and composites."""
    name, params = function.op.name, list(function.op.params)
    args = (*args, *(kwargs[n] for n in params[len(args) :] if n in kwargs))
    composites = [a for a in args if isinstance(a, Composite)]
    library = LIBRARY.get(name)
    if not composites and len(args) == len(params):
        return scalar_op(name, args)
    if library is not None and library.takes(*args):
        return _called(library, args, {})
    if name == "where" and not isinstance(args[0], Composite):
        return copied(args[1] if args[0] else args[2])
    return composite_op(name, args)


def _called(
    function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], *, whole: bool = False
) -> Any:
    """A call of a user's function: arguments are values; ``whole`` gives updated ones, too."""
    found = choose([o.pyfunc for o in function.overloads], args, kwargs)
    overload = function.overloads[found or 0]
    names = overload.pyfunc.__code__.co_varnames
    annotations = overload.pyfunc.__annotations__
    given = [
        declared(annotations.get(n), a) for n, a in zip(names, map(copied, args), strict=False)
    ]
    named = {n: declared(annotations.get(n), copied(a)) for n, a in kwargs.items()}
    result = rewritten(overload.pyfunc, HELPERS)(*given, **named)
    return result[0] if overload.updates and not whole else result


def updating(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """A call that assigns arguments: its result, and their new values in the order of updates."""
    return _called(function, args, kwargs, whole=True)


def _zeros(shape: Any, dtype: Any = float) -> Any:
    """What ``zeros`` is in a kernel: a vector or a matrix."""
    return compile_time.zeros_class(tuple(np.atleast_1d(shape).tolist()), dtype)()


class _Range:
    """``range`` of the kernel language: its values have the type of the bounds."""

    def __init__(self, *bounds: Any) -> None:
        typed = next((b for b in bounds if isinstance(b, _TYPED)), np.int32(0))
        self._type: type[Any] = type(typed)
        self._values = range(*(int(b) for b in bounds))

    def __iter__(self) -> Iterator[Any]:
        return map(self._type, self._values)

    def __reversed__(self) -> Iterator[Any]:
        return map(self._type, reversed(self._values))


HELPERS: dict[str, Any] = {
    "_kc_binary": binary,
    "_kc_unary": unary,
    "_kc_chain": chain,
    "_kc_call": call,
    "_kc_truth": truth,
    "_kc_updating": updating,
    "_kc_copied": copied,
    "_kc_declared": declared,
    "_kc_store": store,
    "_kc_update": update,
}
