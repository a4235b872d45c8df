"""Run a launch in Python: arguments, threads in order, and errors with line and thread."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, cast

import numpy as np

from kernelcore._native import ArrayMemory
from kernelcore.base.errors import (
    KernelArgumentError,
    KernelAssertionError,
    KernelError,
    KernelFiniteError,
    KernelIndexError,
    KernelNameError,
    KernelRaceError,
    SrcLoc,
)
from kernelcore.builtins.reference import as_scalar
from kernelcore.frontend.calls import intrinsics
from kernelcore.language.composite import value_class
from kernelcore.language.source import EXPRESSION_ERRORS
from kernelcore.language.types import ArrayOf, Dense, Scalar, StructType, has_layout, type_of
from kernelcore.launch.kernel import Kernel
from kernelcore.launch.python_mode.array_view import Added, ArrayView
from kernelcore.launch.python_mode.memory import Memory, shown
from kernelcore.launch.python_mode.rewrite import rewritten
from kernelcore.launch.python_mode.values import HELPERS, binary, call, copied
from kernelcore.runtime.array.addresses import at_address
from kernelcore.runtime.array.element_layout import as_numpy
from kernelcore.runtime.array.indexed_array import IndexedArray
from kernelcore.runtime.device import CPU
from kernelcore.runtime.flatten_arguments import empty_array, field_values, leaves
from kernelcore.runtime.structs import struct_class

_MANY_THREADS = 1_000_000


def run(
    kernel: Kernel, dim: int | Sequence[int], args: Sequence[Any], *, on_copies: bool = False
) -> None:
    """Run ``kernel`` at every point of ``dim``, in row-major order, as plain Python.

    Args:
        kernel: The kernel, generic or not.
        dim: The grid.
        args: As for ``launch``; arrays are written in place.
        on_copies: Leave the arrays as they are.

    Raises:
        KernelIndexError: An index is outside of its array.
        KernelFiniteError: A write is not finite, while ``config.check_finite`` is set.
        KernelRaceError: Threads share an element that one of them writes.
        KernelNameError: A variable is used before it has a value.
        KernelArgumentError: An argument does not fit the kernel.
    """
    kernel = kernel.for_arguments(args)
    if len(args) != len(kernel.parameters):
        raise KernelArgumentError(
            f"{kernel.name}(): expected {len(kernel.parameters)} arguments, found {len(args)}",
            kernel.loc,
        )
    dims = (operator.index(dim),) if isinstance(dim, int) else tuple(map(operator.index, dim))
    threads = int(np.prod(dims, dtype=np.int64))
    if threads > _MANY_THREADS:
        note = f"{kernel.name}: {threads} threads in Python take minutes; Ctrl-C ends the launch\n"
        sys.stderr.write(note)
    memory = Memory(kernel.name, on_copies=on_copies)
    values = [
        _value(p.name, p.type, a, memory) for p, a in zip(kernel.parameters, args, strict=True)
    ]
    function = rewritten(kernel.pyfunc, HELPERS)
    outer = intrinsics.host.set(_Thread(memory).evaluate)
    try:
        with np.errstate(all="ignore"):
            for memory.point in np.ndindex(dims):
                function(*map(copied, values))
    except (*EXPRESSION_ERRORS, KernelError) as error:
        known = _known(error, memory)
        if known is None:
            error.add_note(f"kernel '{kernel.name}', thread {shown(memory.point)}")
            raise
        raise known from None
    finally:
        intrinsics.host.reset(outer)
        memory.give_back()


def _value(name: str, type_: Any, given: Any, memory: Memory) -> Any:
    """An argument as the kernel sees it."""
    is_missing = given is None and isinstance(type_, ArrayOf)
    arg: Any = empty_array(type_) if is_missing else given
    match type_:
        case ArrayOf(is_indexed=True):
            given = getattr(arg, "data", arg)
            data = memory.taken(_array(name, type_, given), given)
            tables = arg.tables(type_.ndim) if isinstance(arg, IndexedArray) else None
            return ArrayView(name, data, type_.element, memory, tables=tables)
        case ArrayOf(element=StructType() as element) if not has_layout(element):
            raise KernelArgumentError(
                f"argument '{name}': Python mode has no arrays of {element}, which holds arrays",
                remedy="launch in debug mode",
            )
        case ArrayOf(element=StructType() as element) if isinstance(arg, Mapping):
            fields = leaves(type_, arg, name)
            columns = [_data(name, leaf) for leaf in fields]
            dtype = struct_class(element).numpy_dtype()
            data = memory.gathered(dtype, fields, columns, type_.ndim)
            return ArrayView(name, data, element, memory)
        case ArrayOf():
            data = memory.taken(_array(name, type_, arg), arg)
            return ArrayView(name, data, type_.element, memory)
        case Scalar():
            if getattr(arg, "ndim", None) == 0 and not isinstance(arg, np.generic):
                arg = _data(name, arg)[()]
            return as_scalar(arg, type_)
        case Dense():
            (data,) = leaves(type_, arg, name)
            data = np.array(_data(name, data)).reshape(type_.extents)
            return value_class(type_)._of(data)  # pyright: ignore[reportPrivateUsage]
        case StructType():
            members = zip(type_.fields, field_values(type_, arg, name), strict=True)
            fields = {n: _value(f"{name}.{n}", t, one, memory) for (n, t), one in members}
            return _Fields(fields) if _has_arrays(type_) else struct_class(type_).of_fields(fields)
        case _:
            raise KernelArgumentError(f"argument '{name}': {type_!r} has no form in Python mode")


def _array(name: str, type_: ArrayOf, arg: Any) -> Any:
    """The memory of ``arg``, of the type ``type_``."""
    data, element = _data(name, arg), type_.element
    match element:
        case Scalar():
            wanted, inner = element.numpy, ()
        case Dense():
            wanted, inner = element.scalar.numpy, element.extents
        case _:
            wanted, inner = data.dtype, ()
    outer = data.ndim - len(inner)
    if data.dtype != wanted or outer != type_.ndim or data.shape[outer:] != inner:
        raise KernelArgumentError(
            f"argument '{name}': expected {type_}, found {data.dtype} of shape {data.shape}",
            remedy="convert or reshape it, or annotate the parameter as it is",
        )
    return data


def _has_arrays(type_: StructType) -> bool:
    members = [t for _, t in type_.fields]
    return any(
        isinstance(t, ArrayOf) or (isinstance(t, StructType) and _has_arrays(t)) for t in members
    )


class _Fields:
    """A struct with arrays: its fields as the kernel sees them."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)


def _data(name: str, arg: Any) -> Any:
    """The memory of an array as NumPy's array."""
    if isinstance(arg, np.ndarray):
        return cast("Any", arg)
    for view in (_of_numpy_method, np.from_dlpack, _of_memory):
        with suppress(TypeError, AttributeError, RuntimeError, BufferError):
            return view(arg)
    raise KernelArgumentError(
        f"argument '{name}': expected an array in the memory of the CPU, found "
        f"{type(arg).__name__}",
        remedy="copy it to the CPU, or launch in release mode",
    )


def _of_numpy_method(arg: Any) -> Any:
    return arg.detach().numpy() if hasattr(arg, "detach") else arg.numpy()


def _of_memory(arg: Any) -> Any:
    return as_numpy(ArrayMemory(arg))


class _Thread:
    """What intrinsics mean in the current thread."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def evaluate(self, name: str, args: tuple[Any, ...]) -> Any:
        """The result of intrinsic ``name``."""
        if name == "tid":
            point = tuple(np.int32(i) for i in self._memory.point)
            return point[0] if len(point) == 1 else point
        if name == "printf":
            sys.stdout.write(args[0] % tuple(np.asarray(a).item() for a in args[1:]))
            return None
        if name == "array_at":
            return self._array_at(*args)
        view: ArrayView = args[0]
        count = 2 if name == "atomic_cas" else 1
        key, values = args[1:-count], args[-count:]
        kind = {"atomic_add": "add", "atomic_sub": "sub"}.get(name)
        added = Added(kind, values[0]) if kind else None
        return view.atomically(key, _UPDATES[name](*values), added)

    def _array_at(self, address: Any, shape: Any, dtype: Any) -> ArrayView:
        """The packed array of ``dtype`` at ``address``."""
        array = at_address(int(address), dtype, shape, None, None, CPU, None)
        data = self._memory.taken(_data("array", array))
        return ArrayView("array", data, type_of(dtype), self._memory)


def _cas(expected: Any, new: Any) -> Callable[[Any], Any]:
    def update(old: Any) -> Any:
        same = type(old)(expected).tobytes() == old.tobytes()
        return new if same else old

    return update


def _by(function: Callable[[Any, Any], Any]) -> Callable[[Any], Callable[[Any], Any]]:
    return lambda value: lambda old: function(old, value)


def _builtin(name: str) -> Callable[[Any, Any], Any]:
    return lambda old, value: call(getattr(sys.modules["kernelcore"], name), old, value)


_UPDATES: dict[str, Callable[..., Callable[[Any], Any]]] = {
    "atomic_add": _by(lambda old, value: binary("add", old, value)),
    "atomic_sub": _by(lambda old, value: binary("sub", old, value)),
    "atomic_min": _by(_builtin("min")),
    "atomic_max": _by(_builtin("max")),
    "atomic_exch": _by(lambda old, value: value),
    "atomic_cas": _cas,
    "atomic_and": _by(lambda old, value: binary("bitand", old, value)),
    "atomic_or": _by(lambda old, value: binary("bitor", old, value)),
    "atomic_xor": _by(lambda old, value: binary("bitxor", old, value)),
}


def _known(error: Exception, memory: Memory) -> KernelError | None:
    """The error of the language that ``error`` is, with line and thread; None of others."""
    loc, thread = _loc(error.__traceback__), shown(memory.point)
    match error:
        case KernelError():
            names_thread = isinstance(error, KernelRaceError | KernelFiniteError)
            if error.loc is None and not names_thread:
                error.message = f"{error.message} (thread {thread})"
            return type(error)(error.message, error.loc or loc, error.remedy)
        case UnboundLocalError() | NameError():
            return KernelNameError(
                f"{str(error).split(chr(39))[1]!r} is used before it has a value (thread {thread})",
                loc,
                "assign it on every path that leads here",
            )
        case AssertionError():
            text = str(error) or "an assertion does not hold"
            return KernelAssertionError(f"{text} (thread {thread})", loc)
        case IndexError():
            return KernelIndexError(f"{error} (thread {thread})", loc)
        case _:
            return None


def _loc(traceback: TracebackType | None) -> SrcLoc | None:
    """The innermost place in the code of a kernel or of a function that it calls."""
    found = None
    while traceback is not None:
        frame = traceback.tb_frame
        if "_kc_binary" in frame.f_globals:
            positions = list(frame.f_code.co_positions())[traceback.tb_lasti // 2]
            line, last_line, first, last = positions
            last = last if line == last_line else None
            found = SrcLoc(
                frame.f_code.co_filename, line or traceback.tb_lineno, first or 0, last or 1 << 20
            )
        traceback = traceback.tb_next
    return found
