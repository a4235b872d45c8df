"""Runs kernels over arguments, and tells whoever records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernelcore.errors import KernelArgumentError
from kernelcore.kernel import Kernel
from kernelcore.leaves import leaves
from kernelcore.recording import captured, recorder
from kernelcore.runtime import native

# Whoever launches has it already; importing it would import the compiler.
if TYPE_CHECKING:
    from kernelcore.compiled import Direct

Dims = int | Sequence[int]


def execute(kernel: Kernel, dim: Dims, args: tuple[Any, ...], *, record: bool = True) -> None:
    """Run ``kernel`` over the grid ``dim``; with ``record``, a Tape that is active records it.

    Raises:
        KernelArgumentError: An argument does not fit the kernel; nothing was run.
    """
    tape = recorder.get() if record else None
    if tape is not None:
        tape.record_launch(kernel, dim, args)
    elif (direct := kernel.ready) is not None:
        submit(direct, dim, args)
    else:
        kernel = kernel.for_arguments(args)
        execute_leaves(kernel, dim, argument_leaves(kernel, args))


def execute_leaves(kernel: Kernel, dim: Dims, args: tuple[Any, ...]) -> None:
    """Run ``kernel``, which is not generic, over its ``argument_leaves``; nobody records it."""
    submit(kernel.direct, dim, args)


def submit(direct: Direct, dim: Dims, args: Sequence[Any]) -> None:
    """Launch over one argument per parameter, or capture the launch.

    Raises:
        KernelArgumentError: An argument does not fit the kernel; nothing was run.
    """
    program = captured.get()
    run = native.launch if program is None else program.add_launch
    if not run(direct.signature, dim, args):
        run(direct.serial, dim, args)


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
