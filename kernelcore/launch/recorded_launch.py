"""Launch: a launch that is kept, to be run any number of times with other parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernelcore.base.errors import KernelArgumentError
from kernelcore.launch.dispatch import Dims, check_count, execute
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.launch_options import ANYWHERE, Place, place_of, use_place


class Launch:
    """What ``launch`` with ``record_cmd`` returns.

    Attributes:
        kernel: The kernel.
        dim: The grid shape of the next run.
        params: The arguments of the next run, in order.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: Dims,
        params: Sequence[Any],
        place: Place = ANYWHERE,
        *,
        record_tape: bool = True,
    ) -> None:
        check_count(kernel, len(params))
        self.kernel = kernel
        self.dim = dim
        self.params = list(params)
        self._place = place
        self._record_tape = record_tape

    def set_dim(self, dim: Dims) -> None:
        """Change the grid shape."""
        self.dim = dim

    def set_param_at_index(self, index: int, value: Any) -> None:
        """Change one argument.

        Raises:
            KernelArgumentError: The kernel has no such parameter.
        """
        if not 0 <= index < len(self.params):
            raise KernelArgumentError(
                f"{self.kernel.name}(): no parameter {index}",
                self.kernel.loc,
                f"its parameters are 0 to {len(self.params) - 1}",
            )
        self.params[index] = value

    def set_param_by_name(self, name: str, value: Any) -> None:
        """Change the argument for the parameter ``name``.

        Raises:
            KernelArgumentError: The kernel has no such parameter.
        """
        names = [p.name for p in self.kernel.parameters]
        if name not in names:
            raise KernelArgumentError(
                f"{self.kernel.name}(): no parameter '{name}'",
                self.kernel.loc,
                f"its parameters are {', '.join(names)}",
            )
        self.params[names.index(name)] = value

    def set_params(self, values: Sequence[Any]) -> None:
        """Change all arguments.

        Raises:
            KernelArgumentError: Another number of arguments than the kernel has parameters.
        """
        check_count(self.kernel, len(values))
        self.params = list(values)

    def launch(self, stream: object = None) -> None:
        """Run the kernel, in ``stream`` of a GPU or in that of the recorded launch.

        Raises:
            KernelArgumentError: An argument does not fit the kernel; nothing was run.
        """
        place = self._place
        if stream is not None:
            other = place_of("launch", None, stream)
            place = replace(place, device=other.device, stream=other.stream)
        with use_place(place):
            execute(self.kernel, self.dim, tuple(self.params), record=self._record_tape)

    def __repr__(self) -> str:
        return f"<launch of {self.kernel.name} over {self.dim}>"
