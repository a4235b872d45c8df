"""Programs of several processes, which mpirun starts."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from contextlib import suppress
from typing import Any

import jax

from kernelcore.base.errors import KernelArgumentError

# What mpirun of Open MPI tells the processes that it starts.
_UNDER_MPIRUN = "OMPI_COMM_WORLD_SIZE"


def initialize_distributed(abort_on_error: bool = True) -> tuple[int, int]:
    """Connect the processes that ``mpirun -np N python program.py`` started, before JAX is used.

    On CPUs they exchange arrays through gloo; with GPUs each process has the one of its local rank.

    Args:
        abort_on_error: Whether an exception that nothing catches, in any thread, ends the process
            at once, with its traceback and exit status 1. mpirun then ends the others, which would
            wait for it in a collective otherwise. Functions of ``atexit`` do not run.

    Returns:
        The number of this process and the number of processes.

    Raises:
        KernelArgumentError: The process was not started by mpirun; says whether it is installed.
    """
    if _UNDER_MPIRUN not in os.environ:
        if shutil.which("mpirun") is None:
            raise KernelArgumentError(
                "initialize_distributed: Open MPI is not installed: there is no mpirun",
                remedy="install it (Debian, Ubuntu: apt-get install openmpi-bin), "
                "then start the program with mpirun -np 2 python program.py",
            )
        raise KernelArgumentError(
            "initialize_distributed: the process was not started by mpirun",
            remedy="start the program with mpirun -np 2 python program.py",
        )
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if abort_on_error:
        _abort_on_error()
    jax.distributed.initialize()
    return jax.process_index(), jax.process_count()


def _abort_on_error() -> None:
    """Let exceptions that nothing catches end the process, without waiting for other processes."""
    of_main, of_threads = sys.excepthook, threading.excepthook

    def end_main(*error: Any) -> None:
        of_main(*error)
        _end()

    def end_thread(arguments: threading.ExceptHookArgs) -> None:
        of_threads(arguments)
        if arguments.exc_type is not SystemExit:
            _end()

    sys.excepthook, threading.excepthook = end_main, end_thread


def _end() -> None:
    # The shutdown of JAX is a barrier, which the other processes do not reach.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(1)
