"""Programs of several processes, which mpirun starts."""

from __future__ import annotations

import os
import shutil

import jax

from kernelcore.base.errors import KernelArgumentError

# What mpirun of Open MPI tells the processes that it starts.
_UNDER_MPIRUN = "OMPI_COMM_WORLD_SIZE"


def initialize_distributed() -> tuple[int, int]:
    """Connect the processes that ``mpirun -np N python program.py`` started, before JAX is used.

    On CPUs they exchange arrays through gloo; with GPUs each process has the one of its local rank.

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
    jax.distributed.initialize()
    return jax.process_index(), jax.process_count()
