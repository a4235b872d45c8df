"""``@kernel``: makes a Kernel of a Python function, or of its text."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.lazy import Deferred
from kernelcore.language import source_check
from kernelcore.language.function import require_function
from kernelcore.launch.kernel import Kernel

# Most kernels are functions of files.
if TYPE_CHECKING:
    from kernelcore.language import text_function
else:
    text_function = Deferred("kernelcore.language.text_function")


@typing.overload
def kernel(pyfunc: Callable[..., Any]) -> Kernel: ...
@typing.overload
def kernel(*, flush_denormals: bool | None = None) -> Callable[[Callable[..., Any]], Kernel]: ...
@typing.overload
def kernel(
    *, source: str, globals: dict[str, Any] | None = None, flush_denormals: bool | None = None
) -> Kernel: ...
def kernel(
    pyfunc: Callable[..., Any] | None = None,
    *,
    source: str | None = None,
    globals: dict[str, Any] | None = None,
    flush_denormals: bool | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a Python function whose parameters are annotated with kernelcore types.

    Its text is that which the file had when the kernel was made. The names of the scopes around it
    have the values that they have at a launch, as in Python: after ``SCALE = 2.0``, or where a
    function that it calls is defined again, the next launch compiles the kernel for that. Values
    that were met before are not compiled again. What is made of a kernel keeps the values that
    names had then: operators of torch and Paddle, functions that JAX has traced, captured graphs,
    recorded launches from their first run on, exported files, and what a Tape has recorded. So do
    default values of parameters, and annotations. Changes inside of an object are not seen.

    ``kernel(source="def scale(x: kc.array[float]): ...")`` makes one of a text, where there is no
    file: in ``python -c``, in code that ``exec`` runs, or of kernels that a program writes. Errors
    show the line of the text.

    Args:
        pyfunc: The function.
        source: Instead of it, the text of its definition, without decorators.
        globals: What names in ``source`` stand for; by default what they do where ``kernel`` is
            called: global names as they are at a launch, local ones of a function as they are now.
        flush_denormals: Whether the kernel, and every kernel that is derived of it, takes subnormal
            numbers for zeros and makes zeros of them. Default: ``config.flush_denormals``.

    Raises:
        KernelArgumentError: ``flush_denormals`` is no bool.
        KernelTypeError: ``pyfunc`` is no plain Python function.
        KernelSyntaxError: ``source`` is not one definition.
    """
    if flush_denormals is not None and type(flush_denormals) is not bool:
        raise KernelArgumentError(
            f"kernel: flush_denormals: expected a bool, found {flush_denormals!r}"
        )

    def make(pyfunc: Callable[..., Any]) -> Kernel:
        require_function(pyfunc, "kernel")
        source_check.note_text(pyfunc)
        return Kernel(pyfunc, None, flush_denormals)

    if source is not None:
        return make(text_function.function_of_text(source, globals, "kernel"))
    return make if pyfunc is None else make(pyfunc)
