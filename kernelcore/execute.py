"""Runs kernels over arguments, and tells whoever records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelcore.errors import KernelArgumentError
from kernelcore.kernel import Kernel
from kernelcore.leaves import leaves
from kernelcore.recording import captured, recorder
from kernelcore.runtime import native
from kernelcore.types import ArrayType

Dims = int | Sequence[int]


def execute(kernel: Kernel, dim: Dims, args: tuple[Any, ...], *, record: bool = True) -> None:
    """Run ``kernel`` over the grid ``dim``; with ``record``, a Tape that is active records it.

    Raises:
        KernelArgumentError: An argument does not fit the kernel; nothing was run.
    """
    tape = recorder.get() if record else None
    if tape is not None:
        tape.record_launch(kernel, dim, args)
    elif (signature := kernel.quick) is not None:
        submit(signature, dim, args)
    else:
        kernel = kernel.for_arguments(args)
        execute_leaves(kernel, dim, argument_leaves(kernel, args))


def execute_leaves(kernel: Kernel, dim: Dims, args: tuple[Any, ...]) -> None:
    """Run ``kernel``, which is not generic, over its ``argument_leaves``; nobody records it."""
    direct = kernel.direct
    if direct.exclusive and _shares_memory(kernel, args):
        direct = kernel.shared
    submit(direct.signature, dim, args)


def submit(signature: native.Signature, dim: Dims, args: Sequence[Any]) -> None:
    """Launch over one argument per parameter, or capture the launch.

    Raises:
        KernelArgumentError: An argument does not fit the kernel; nothing was run.
    """
    program = captured.get()
    if program is None:
        native.launch(signature, dim, args)
    else:
        program.add_launch(signature, dim, args)


def argument_leaves(kernel: Kernel, args: Sequence[Any]) -> tuple[Any, ...]:
    """One object per parameter of the IR: composites and structs are taken apart.

    Raises:
        KernelArgumentError: Another number of arguments, or one that does not fit its type.
    """
    check_count(kernel, len(args))
    if kernel.is_plain:
        return tuple(args)
    found: list[Any] = []
    for parameter, arg in zip(kernel.parameters, args, strict=True):
        assert parameter.type is not None
        try:
            found.extend(leaves(parameter.type, arg, f"argument '{parameter.name}'"))
        except KernelArgumentError as error:
            message = f"{kernel.name}(): {error.message}"
            raise KernelArgumentError(message, parameter.loc, error.remedy) from None
    return tuple(found)


def check_count(kernel: Kernel, found: int) -> None:
    """Refuse another number of arguments than ``kernel`` has parameters.

    Raises:
        KernelArgumentError: Naming the kernel.
    """
    if found != len(kernel.parameters):
        raise KernelArgumentError(
            f"{kernel.name}(): expected {len(kernel.parameters)} arguments, found {found}",
            kernel.func.loc,
        )


def _shares_memory(kernel: Kernel, args: tuple[Any, ...]) -> bool:
    """Whether an element that the kernel updates without atomics may be reached in two ways."""
    signature, exclusive = kernel.direct.signature, kernel.direct.exclusive
    if len(args) != len(kernel.func.params):
        return False  # refused by the launch
    spans = {
        i: native.array_span(signature, i, args[i])
        for i, p in enumerate(kernel.func.params)
        if isinstance(p.type, ArrayType)
    }
    return any(
        not spans[i].is_distinct
        or any(spans[i].overlaps(span) for j, span in spans.items() if j != i)
        for i in exclusive
    )
