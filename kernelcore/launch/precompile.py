"""compile_all: the code of many kernels at once, by several processes."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelArgumentError, KernelCompileError, KernelError
from kernelcore.codegen.target import cpu
from kernelcore.codegen.target.worker import Worker
from kernelcore.compiler import native_code as code
from kernelcore.compiler import stages
from kernelcore.ir.core import Func
from kernelcore.language.types import ArrayType
from kernelcore.launch.declare import OfKernel, as_kernel
from kernelcore.launch.executable import Executable
from kernelcore.launch.kernel import Kernel
from kernelcore.passes.autodiff import activity

# A process takes as long to start as a few kernels take to compile.
KERNELS_PER_PROCESS = 6
BAR_WIDTH = 24

_Make = Callable[[], Func | None]


@dataclass(frozen=True, slots=True)
class CompileReport:
    """What ``compile_all`` did, by names of kernels; that of an adjoint ends in 'adjoint'.

    Attributes:
        compiled: Those that have new code.
        cached: Those whose code this process or the disk cache had.
        failed: Those that have no code, and why.
        seconds: How long it took.
    """

    compiled: tuple[str, ...]
    cached: tuple[str, ...]
    failed: Mapping[str, KernelError]
    seconds: float

    def __str__(self) -> str:
        counts = f"{len(self.compiled)} compiled, {len(self.cached)} cached"
        lines = [f"{counts}, {len(self.failed)} failed, in {self.seconds:.2f} s"]
        lines += [f"{name}: {error}" for name, error in self.failed.items()]
        return "\n".join(lines)


def compile_all(
    kernels: Iterable[Kernel | OfKernel],
    *,
    adjoint: bool = False,
    processes: int | None = None,
    progress: bool | None = None,
) -> CompileReport:
    """Make the code of kernels before it is needed, in parallel, and keep it in the disk cache.

    Launches in this process then find the code, and later processes find it in the cache. A kernel
    that cannot be compiled is reported, and the others are compiled nevertheless.

    Args:
        kernels: Kernels, or operators of one; of a generic kernel give overloads,
            ``kernel.overload(...)``.
        adjoint: Whether to compile adjoints, too: those of ``launch(adjoint=True)`` with cotangents
            of all floats, and of a Tape with gradients of all arrays of floats.
        processes: How many compile at most; by default as many as there are processors.
        progress: Whether to show a bar on standard error; by default if that is a terminal.

    Returns:
        What was compiled, what was there, and what failed.

    Raises:
        KernelArgumentError: One of ``kernels`` is no kernel, or ``processes`` is no integer from 1.
    """
    if not isinstance(kernels, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise KernelArgumentError(
            f"compile_all: expected kernels, found {type(kernels).__name__}",
            remedy="give a list: compile_all([kernel])",
        )
    wanted = [as_kernel(kernel) for kernel in kernels]
    is_count = isinstance(processes, int) and processes >= 1
    if processes is not None and not is_count:
        raise KernelArgumentError(f"compile_all: expected at least 1 process, found {processes!r}")
    return _Run(wanted, adjoint, progress).finish(processes or _processors())


class _Run:
    """One call of ``compile_all``: this process makes texts, and helps the others to compile."""

    def __init__(self, kernels: list[Kernel], adjoint: bool, progress: bool | None) -> None:
        self.start = time.perf_counter()
        self.kernels = kernels
        # Programs without a console have no standard error.
        self.is_shown = bool(sys.stderr) and (sys.stderr.isatty() if progress is None else progress)
        self.tasks = list(_named(task for kernel in kernels for task in _tasks(kernel, adjoint)))
        self.count = len(self.tasks)
        # Ends with a None for every thread.
        self.queue: SimpleQueue[tuple[str, code.Missing] | None] = SimpleQueue()
        # One for every other process.
        self.threads: list[threading.Thread] = []
        self.workers: list[Worker] = []
        self.lock = threading.Lock()
        self.compiled: list[str] = []
        self.cached: list[str] = []
        self.failed: dict[str, KernelError] = {}

    def finish(self, processes: int) -> CompileReport:
        """Compile everything with at most ``processes`` processes, this one included."""
        queued = 0
        try:
            for at, (name, make) in enumerate(self.tasks):
                missing = self._missing(name, make)
                if missing is None:
                    continue
                self.queue.put((name, missing))
                queued += 1
                self._get_help(queued + len(self.tasks) - at - 1, processes)
            for _ in (*self.threads, None):
                self.queue.put(None)
            self._compile(cpu.object_code)
            self._join()
        finally:
            self._abandon()
        for kernel in self.kernels:
            # Later processes find the launch as well; what fails is reported above.
            with contextlib.suppress(KernelError):
                _ = None if kernel.is_generic else [e.signature for e in _executables(kernel)]
        if self.is_shown:
            print(file=sys.stderr)
        seconds = time.perf_counter() - self.start
        return CompileReport(tuple(self.compiled), tuple(self.cached), self.failed, seconds)

    def _get_help(self, expected: int, processes: int) -> None:
        """Start one more of ``processes`` if ``expected`` kernels are enough for all."""
        enough = len(self.threads) + 1
        if expected > enough * KERNELS_PER_PROCESS and enough < processes:
            self.threads.append(threading.Thread(target=self._serve))
            self.threads[-1].start()

    def _join(self) -> None:
        for thread in self.threads:
            thread.join()

    def _abandon(self) -> None:
        """End the others, which have work left where this thread was interrupted."""
        with contextlib.suppress(Empty):
            while True:
                self.queue.get_nowait()
        for _ in self.threads:
            self.queue.put(None)
        for worker in self.workers:
            worker.kill()
        self._join()

    def _missing(self, name: str, make: _Make) -> code.Missing | None:
        try:
            func = make()
            missing = None if func is None else code.missing(func)
        except KernelError as error:
            self._note(name, error)
            return None
        if func is None:
            self.count -= 1
        elif missing is None:
            self._note(name, self.cached)
        return missing

    def _serve(self) -> None:
        """Have texts compiled by a process until there are no more."""
        worker: Worker | None = None
        # What keeps it from starting is told by the first kernel.
        with contextlib.suppress(KernelCompileError):
            worker = self._worker()

        def object_code(text: str) -> bytes:
            nonlocal worker
            if worker is not None and worker.has_ended:
                worker.close()
                worker = None
            worker = worker or self._worker()
            return worker.object_code(text)

        try:
            self._compile(object_code)
        finally:
            if worker is not None:
                worker.close()

    def _worker(self) -> Worker:
        worker = Worker()
        self.workers.append(worker)
        return worker

    def _compile(self, object_code: Callable[[str], bytes]) -> None:
        """Make code of texts until there are no more."""
        while (item := self.queue.get()) is not None:
            name, missing = item
            try:
                code.add(missing, object_code(missing.text))
            except KernelError as error:
                self._note(name, error)
            else:
                self._note(name, self.compiled)

    def _note(self, name: str, outcome: list[str] | KernelError) -> None:
        with self.lock:
            if isinstance(outcome, KernelError):
                self.failed[name] = outcome
            else:
                outcome.append(name)
            if self.is_shown:
                self._show(name)

    def _show(self, name: str) -> None:
        done = len(self.compiled) + len(self.cached) + len(self.failed)
        filled = BAR_WIDTH * done // self.count
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        # Erases what a longer name has left of the line.
        text = f"\r[{bar}] {done}/{self.count} {name}\x1b[K"
        print(text, end="", file=sys.stderr, flush=True)


def _tasks(kernel: Kernel, adjoint: bool) -> Iterator[tuple[str, _Make]]:
    """The names of codes, and what makes their IR."""
    yield kernel.name, lambda: _specific(kernel).executable.func
    if adjoint:
        yield (
            f"{kernel.name}, adjoint",
            lambda: _adjoint(kernel, *stages.all_derivatives(kernel.func)),
        )
        yield f"{kernel.name}, Tape's adjoint", lambda: _adjoint(kernel, _arrays(kernel.func), [])


def _named(tasks: Iterable[tuple[str, _Make]]) -> Iterator[tuple[str, _Make]]:
    """``tasks``, with numbers where names are the same."""
    seen: dict[str, int] = {}
    for name, make in tasks:
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name} ({seen[name]})"), make


def _specific(kernel: Kernel) -> Kernel:
    """``kernel``, which has one type per parameter.

    Raises:
        KernelArgumentError: It is generic.
    """
    if kernel.is_generic:
        raise KernelArgumentError(
            f"compile_all: '{kernel.name}' is generic",
            remedy="give its overloads: kernel.overload(...)",
        )
    return kernel


def _adjoint(kernel: Kernel, wrt: Sequence[int], seeds: Sequence[int]) -> Func | None:
    """An adjoint of ``kernel``; None where there is nothing to differentiate."""
    written = [effect.writes for effect in kernel.effects]
    if not wrt or not any(written[i] for i in (*wrt, *seeds)):
        return None
    return kernel.adjoint(tuple(wrt), tuple(seeds)).executable.func


def _arrays(func: Func) -> list[int]:
    """The parameters that are arrays of floats."""
    pairs = enumerate(func.params)
    return [i for i, p in pairs if isinstance(p.type, ArrayType) and activity.is_float(p)]


def _executables(kernel: Kernel) -> list[Executable]:
    """The code of ``kernel`` and of the adjoints that were derived."""
    return [kernel.executable, *(adjoint.executable for adjoint in kernel.adjoints.values())]


def _processors() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
