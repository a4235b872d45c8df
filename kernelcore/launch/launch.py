"""launch: run a kernel, or its adjoint, over arrays that the caller provides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.errors import KernelArgumentError, KernelPlacementError
from kernelcore.base.keywords import checked_keywords
from kernelcore.base.lazy import Deferred
from kernelcore.launch.declare import OfKernel, as_kernel
from kernelcore.launch.dispatch import Dims, execute, with_empty_arrays
from kernelcore.launch.kernel import Kernel
from kernelcore.launch.recorded_launch import Launch
from kernelcore.runtime.device import CPU
from kernelcore.runtime.hooks import observer
from kernelcore.runtime.launch_options import options_of, use_options

if TYPE_CHECKING:
    from kernelcore.launch import adjoint_launch
else:
    adjoint_launch = Deferred("kernelcore.launch.adjoint_launch")

Function = TypeVar("Function", bound=Callable[..., Any])

_observing = observer.get


def _entered(function: Function) -> Function:
    """``function`` behind native code, which runs the launches that need nothing else."""
    entry = native.launch_entry(checked_keywords(function), Kernel, _observing)
    return cast(Function, update_wrapper(entry, function))


@_entered
def launch(
    kernel: Kernel | OfKernel,
    dim: Dims,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] | None = None,
    adj_outputs: Sequence[Any] | None = None,
    device: object = None,
    stream: object = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
) -> Launch | None:
    """Run ``kernel`` once per point of the grid ``dim``.

    Arrays that every thread indexes by its launch index must be at least as large as the launch;
    other indices are not checked.

    Args:
        kernel: The kernel, or an operator of one.
        dim: Grid shape; as many dimensions as the kernel asks ``tid`` for.
        inputs: Arguments for the parameters in order: arrays (kernelcore, NumPy, torch, JAX, or
            anything with the buffer protocol or DLPack) of the dtype and rank that the kernel
            declares, with any strides, and numbers for scalars. Arrays that the kernel writes are
            written in place. A kernelcore array without dimensions stands for its element where a
            value is declared, a struct too; a Tape gives it a gradient if it requires one. None
            stands for an array without elements, which is false as a condition.
        outputs: Arguments for the parameters that follow; a split for the reader only.
        adj_inputs: With ``adjoint``: one array or None per argument in ``inputs``. Cotangents of
            arguments are added to these arrays; those of a scalar to an array without dimensions.
            None stands for the gradient of an array with ``requires_grad``, else for no cotangent.
        adj_outputs: With ``adjoint``: likewise for ``outputs``; cotangents of arrays that the
            kernel writes are read from here. Where the kernel stores an element more than once,
            the cotangents that it used are zeroed. An array that the kernel loads and writes is
            refused, unless its elements after the launch are provably those that were loaded: each
            is stored before it is loaded, or one loop computes element ``t + 1`` from those before.
        device: Where to run, such as 'cpu' or 'cuda:0'; by default where the arrays are.
        stream: The stream of a GPU to queue it in, by default that of ``get_stream``. On a GPU a
            launch returns when it is queued, and what fails is raised by the next wait for it.
        adjoint: Run the adjoint of the kernel instead of the kernel; no Tape records that.
        record_tape: Whether a Tape that is active records the launch.
        record_cmd: Return a Launch, which runs when its ``launch`` is called, and run nothing.
        max_blocks: Blocks of a GPU at most; threads take several points then. No effect on the CPU.
        block_dim: Threads of a block of a GPU, by default ``config.block_dim``.

    Returns:
        With ``record_cmd``, the command; else None.

    Raises:
        KernelArgumentError: An argument does not fit the kernel; nothing was run.
        KernelGradError: The kernel has no exact derivative.
        KernelDeviceError: There is no driver for the device, or it refuses the launch.
    """
    if not isinstance(kernel, Kernel):
        # Native code has a short way for kernels only.
        named = adj_inputs, adj_outputs, device, stream, adjoint, record_tape, record_cmd
        return launch(as_kernel(kernel), dim, inputs, outputs, *named, max_blocks, block_dim)
    changes = config.changes
    given, kernel = kernel, kernel.current()
    # Iterators are read once.
    inputs, outputs = (*inputs,), (*outputs,)
    for arg in (*inputs, *outputs):
        if arg is None:
            inputs, outputs = with_empty_arrays(kernel, (*inputs, *outputs), len(inputs), device)
            break
    is_plain = not (adjoint or record_cmd) and adj_inputs is adj_outputs is device is stream is None
    if is_plain:
        observing = _observing()
        if observing is None or config.mode == "python":
            pass
        elif record_tape and not (block_dim or max_blocks):
            observing.record_launch(kernel, dim, (*inputs, *outputs))
            return None
    args = (*inputs, *outputs)
    if is_plain and not (block_dim or max_blocks) and _is_launched_on_gpu(kernel, dim, args):
        return None
    loc = None if device is None or kernel.is_generic else kernel.loc
    options = options_of("launch", device, stream, block_dim, max_blocks, loc)
    if adjoint and record_cmd:
        given_arrays = (adj_inputs, len(inputs)), (adj_outputs, len(outputs))
        cotangents = [a for row, n in given_arrays for a in ([None] * n if row is None else row)]
        return Launch(kernel, dim, args, options, adj_params=cotangents)
    if adjoint:
        arrays = adj_inputs, adj_outputs
        with use_options(options):
            adjoint_launch.launch_adjoint(kernel, dim, args, arrays, len(inputs))
        return None
    if adj_inputs is not None or adj_outputs is not None:
        raise KernelArgumentError(
            "launch: adj_inputs and adj_outputs are arguments of the adjoint",
            kernel.loc,
            "pass adjoint=True as well",
        )
    if record_cmd:
        return Launch(kernel, dim, args, options, record_tape=record_tape)
    with use_options(options):
        execute(kernel, dim, args, record=record_tape)
    if options.device in (None, CPU):
        given.note_launch(kernel, args, changes)
    return None


def _is_launched_on_gpu(kernel: Kernel, dim: Dims, args: Sequence[Any]) -> bool:
    """Launch on the GPU that had the arrays of the launch before; False, and nothing was done,
    if there is none, or it has not all of ``args``."""
    if kernel.gpu_fast_path is None or _observing() is not None or not native.cuda_is_open():
        return False
    try:
        return kernel.gpu_fast_path.run(dim, args)
    except KernelPlacementError:
        kernel.gpu_fast_path = None
        return False
