"""Launch: a launch that is kept, to be run any number of times with other parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelArgumentError, KernelPlacementError
from kernelcore.base.keywords import checked_keywords
from kernelcore.base.lazy import Deferred
from kernelcore.launch.declare import OfKernel, as_kernel
from kernelcore.launch.dispatch import Dims, check_count, execute, is_element
from kernelcore.launch.kernel import Kernel
from kernelcore.runtime.hooks import observer
from kernelcore.runtime.launch_options import DEFAULTS, LaunchOptions, options_of, use_options

if TYPE_CHECKING:
    from kernelcore.launch import adjoint_launch
    from kernelcore.launch.executable import Executable
else:
    adjoint_launch = Deferred("kernelcore.launch.adjoint_launch")

# Arguments whose memory or value stays what it is.
_FIXED = int | float | np.generic | np.ndarray | native.ArrayMemory


class Launch:
    """A kernel, its grid and its arguments: what ``launch`` with ``record_cmd`` returns.

    One made by hand may get its grid and its arguments later, by ``set_dim`` and ``set_params``.
    With ``adj_params`` it runs the adjoint of the kernel.

    A launch on the CPU that is repeated with the same grid, numbers, and arrays of NumPy or
    kernelcore does not check these again. Tensors and arrays of JAX it compares with those of the
    launch before.

    Attributes:
        kernel: The kernel, also where an operator of one was given.
        dim: The grid shape of the next run.
        params: The arguments of the next run, in order.
        adj_params: For the adjoint, an array of cotangents or None per argument; else None.

    Example:
        >>> command = kc.Launch(scale, device="cpu")
        >>> command.set_dim(len(x))
        >>> command.set_params([x, y])
        >>> command.launch()
    """

    @checked_keywords
    def __init__(
        self,
        kernel: Kernel | OfKernel,
        dim: Dims | None = None,
        params: Sequence[Any] | None = None,
        options: LaunchOptions = DEFAULTS,
        *,
        adj_params: Sequence[Any] | None = None,
        device: object = None,
        block_dim: int | None = None,
        max_blocks: int = 0,
        record_tape: bool = True,
    ) -> None:
        if device is not None or block_dim or max_blocks:
            options = options_of("Launch", device, None, block_dim, max_blocks)
        # Launches that checked the arguments since an attribute was set, and the checked launch.
        self._launches = 0
        self._repeat: Callable[[], bool] | None = None
        self._options = options
        self._record_tape = record_tape
        of = as_kernel(kernel)
        self.kernel = of if of.is_generic else of.current()
        self.dim: Dims | None = None
        self.params: tuple[Any, ...] | None = None
        self.adj_params = None if adj_params is None else tuple(adj_params)
        if dim is not None:
            self.set_dim(dim)
        if params is not None:
            self.set_params(params)

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if not name.startswith("_"):
            self._launches, self._repeat = 0, None

    def set_dim(self, dim: Dims) -> None:
        """Change the grid shape."""
        self.dim = tuple(dim) if isinstance(dim, list) else dim

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Change one argument; with ``adjoint``, its cotangent.

        Raises:
            KernelArgumentError: The kernel has no such parameter.
        """
        count = len(self.kernel.parameters)
        if not 0 <= index < count:
            raise self._unknown(str(index), f"0 to {count - 1}")
        changed = list((self.adj_params if adjoint else self.params) or [None] * count)
        changed[index] = value
        if adjoint:
            self.adj_params = tuple(changed)
        else:
            self.params = tuple(changed)

    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Change the argument for the parameter ``name``; with ``adjoint``, its cotangent.

        Raises:
            KernelArgumentError: The kernel has no such parameter.
        """
        names = [p.name for p in self.kernel.parameters]
        if name not in names:
            raise self._unknown(repr(name), ", ".join(names))
        self.set_param_at_index(names.index(name), value, adjoint)

    def _unknown(self, parameter: str, known: str) -> KernelArgumentError:
        text = f"{self.kernel.name}(): no parameter {parameter}"
        return KernelArgumentError(text, self.kernel.loc, f"its parameters are {known}")

    def set_params(self, values: Sequence[Any]) -> None:
        """Change all arguments.

        Raises:
            KernelArgumentError: Another number of arguments than the kernel has parameters.
        """
        check_count(self.kernel, len(values))
        self.params = tuple(values)

    def launch(self, stream: object = None) -> None:
        """Run the kernel, in ``stream`` of a GPU or in that of the recorded launch.

        Raises:
            KernelArgumentError: An argument does not fit the kernel, or the grid or the arguments
                were not given; nothing was run.
        """
        # An observer sees every launch, and Python mode runs it.
        if stream is not None or observer.get() is not None or config.mode == "python":
            self._execute(stream)
            return
        repeat = self._repeat
        if repeat is not None and repeat():
            return
        # The second launch checks the arguments once, and so does one whose arrays have moved.
        if self._launches == 1 or repeat is not None:
            repeat = self._repeat = self._checked()
            if repeat is not None and repeat():
                return
        self._execute()
        self._launches += 1

    def _execute(self, stream: object = None) -> None:
        options = self._options
        if stream is not None:
            other = options_of("launch", None, stream)
            options = replace(options, device=other.device, stream=other.stream)
        for what, given in (("grid", self.dim), ("arguments", self.params)):
            if given is None:
                raise KernelArgumentError(
                    f"{self.kernel.name}(): the launch has no {what}",
                    self.kernel.loc,
                    f"give {'them' if what[-1] == 's' else 'it'} by "
                    f"{'set_params' if what[-1] == 's' else 'set_dim'}()",
                )
        assert self.dim is not None
        assert self.params is not None
        with use_options(options):
            if self.adj_params is None:
                execute(self.kernel, self.dim, self.params, record=self._record_tape)
            else:
                kernel, count = self.kernel.current(), len(self.params)
                cotangents = self.adj_params, None
                adjoint_launch.launch_adjoint(kernel, self.dim, self.params, cotangents, count)

    def _checked(self) -> Callable[[], bool] | None:
        """The launch with its arguments checked; None where every launch has to check them."""
        if self.adj_params is not None or self.dim is None or self.params is None:
            return None
        executable = self.kernel.plain_executable
        if executable is None or not executable.has_arrays:
            return None
        if not executable.is_on_cpu:
            return self._queued(executable)
        is_fixed = all(isinstance(p, _FIXED) or native.is_followed(p) for p in self.params)
        if not is_fixed or any(is_element(p) for p in self.params):
            return None
        try:
            made = native.prepare_launch(executable.signature, self.dim, self.params, follows=True)
        except KernelPlacementError:
            return None
        # A bound method is called without the search for `__call__`.
        return None if made is None else made.__call__

    def _queued(self, executable: Executable) -> Callable[[], bool] | None:
        """A function that queues the launch on the GPU of its arrays.

        It returns False, and does nothing, where the launch needs another way: the arrays have
        moved, or share memory that they must not share.
        """
        options, params = self._options, self.params
        assert self.dim is not None
        assert params is not None
        cached = executable.cached_gpu_launch(params)
        # The fast path has no stream, block size or limit of blocks of its own.
        if cached is None or options != replace(DEFAULTS, device=options.device):
            return None
        if options.device not in (None, cached.device):
            return None
        dim = self.dim

        def run() -> bool:
            try:
                return cached.run(dim, params)
            except KernelPlacementError:
                return False

        return run

    def __repr__(self) -> str:
        what = "launch" if self.adj_params is None else "adjoint launch"
        return f"<{what} of {self.kernel.name} over {self.dim}>"
