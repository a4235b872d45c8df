"""Native functions in Python mode: a kernel of one thread runs their C++ text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from kernelcore.base.config import check_finite
from kernelcore.frontend.calls.snippet import NativeFunction, snippet_of_function
from kernelcore.language.composite import value_class
from kernelcore.language.definition import define
from kernelcore.language.types import ArrayOf, Dense, Scalar
from kernelcore.launch.declare import kernel
from kernelcore.launch.dispatch import argument_leaves
from kernelcore.launch.kernel import Kernel
from kernelcore.launch.python_mode.array_view import ArrayView, loaded


def call_native(function: NativeFunction, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The result of ``function``; what its text does to arrays is not checked.

    Raises:
        KernelError: The arguments do not fit, or there is no C++ compiler.
    """
    result = snippet_of_function(function).result
    bound = define(function.function.overloads[0]).signature.bind(*args, **named)
    bound.apply_defaults()
    given: list[Any] = [a.data if isinstance(a, ArrayView) else a for a in bound.args]
    extents = result.extents if isinstance(result, Dense) else ()
    if result is not None:
        given.append(np.zeros((1, *extents), _scalar(result).numpy))
    runner = _runner(function)
    # Not a launch of the user: nobody records it.
    runner.executable.launch(1, argument_leaves(runner, given))
    return None if result is None else loaded(result, given[-1][0, ...])


def _scalar(result: Scalar | Dense) -> Scalar:
    return result if isinstance(result, Scalar) else result.scalar


@cache
def _runner(function: NativeFunction) -> Kernel:
    """A kernel that calls ``function``, and keeps its result in an array."""
    types: list[Any] = list(define(function.function.overloads[0]).wanted)
    names = [f"a{k}" for k in range(len(types))]
    call = f"called({', '.join(names)})"
    result = snippet_of_function(function).result
    if result is not None:
        types.append(ArrayOf(result, 1))
        names.append("result")
        call = f"result[0] = {call}"
    typed = [value_class(t) if isinstance(t, Dense) else t for t in types]
    parameters = ", ".join(f"{name}: {name}_type" for name in names)
    known = {f"{name}_type": t for name, t in zip(names, typed, strict=True)}
    text = f"def {function.name}({parameters}):\n    {call}\n"
    made = kernel(source=text, globals={**known, "called": function})
    assert isinstance(made, Kernel)
    # Python mode checks what the kernel writes of the result itself.
    with check_finite(False):
        _ = made.executable.signature
    return made
