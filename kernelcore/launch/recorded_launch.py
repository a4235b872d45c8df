"""Launch: a launch that is kept, to be run any number of times with other parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernelcore.base.errors import KernelArgumentError
from kernelcore.launch.dispatch import Dims, check_count, execute
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.launch_options import DEFAULTS, LaunchOptions, options_of, use_options


class Launch:
    """A kernel, its grid and its arguments: what ``launch`` with ``record_cmd`` returns.

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
        options: LaunchOptions = DEFAULTS,
        *,
        record_tape: bool = True,
    ) -> None:
        self.kernel = kernel
        self.set_dim(dim)
        self.set_params(params)
        self._options = options
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
            raise self._unknown(str(index), f"0 to {len(self.params) - 1}")
        self.params[index] = value

    def set_param_by_name(self, name: str, value: Any) -> None:
        """Change the argument for the parameter ``name``.

        Raises:
            KernelArgumentError: The kernel has no such parameter.
        """
        names = [p.name for p in self.kernel.parameters]
        if name not in names:
            raise self._unknown(repr(name), ", ".join(names))
        self.params[names.index(name)] = value

    def _unknown(self, parameter: str, known: str) -> KernelArgumentError:
        text = f"{self.kernel.name}(): no parameter {parameter}"
        return KernelArgumentError(text, self.kernel.loc, f"its parameters are {known}")

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
        options = self._options
        if stream is not None:
            other = options_of("launch", None, stream)
            options = replace(options, device=other.device, stream=other.stream)
        with use_options(options):
            execute(self.kernel, self.dim, tuple(self.params), record=self._record_tape)

    def __repr__(self) -> str:
        return f"<launch of {self.kernel.name} over {self.dim}>"
