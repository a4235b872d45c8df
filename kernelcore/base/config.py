"""Settings of this process, as ``kernelcore.config``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from kernelcore.base.errors import KernelArgumentError

MODES = ("release", "debug", "python")
# Called after a setting that launches follow has changed: native launches forget what they would
# run.
on_change: list[Callable[[], None]] = []
# As many threads as a block of any GPU has.
MAX_BLOCK_DIM = 1024
_FLAGS: dict[str, Any] = {"0": False, "1": True}


class Config:
    """Settings that kernels are compiled with.

    Launches and eager calls of operators follow ``mode``, ``check_finite`` and ``flush_denormals``;
    what was captured, traced or compiled by a framework keeps them as they were. The other settings
    hold for kernels that are built afterwards.

    Attributes:
        mode: 'debug' checks every index of an array, and a launch that leaves an array raises
            ``KernelIndexError`` before it touches memory there. 'release', the default, checks what
            a launch can know beforehand. 'python' runs launches on the CPU as plain Python, thread
            by thread, for debuggers, and reports races of threads too. The environment variable
            ``KC_MODE`` sets it first.
        check_finite: Whether a kernel that writes NaN or an infinity to an array raises
            ``KernelFiniteError``, which names the line, the thread and the element; False by
            default. The environment variable ``KC_CHECK_FINITE``, 0 or 1, sets it first.
        flush_denormals: Whether arithmetic takes subnormal numbers, those closer to zero than
            1.2e-38 in float32, for zeros, and gives zeros where results are subnormal; False by
            default. ``@kernel(flush_denormals=...)`` decides for one kernel. The environment
            variable ``KC_FLUSH_DENORMALS``, 0 or 1, sets it first.
        optimize: Whether LLVM optimises kernels, and gangs run their threads; True by default.
            Without it kernels compile several times faster and run much slower, with the same
            results but for the order of sums. Kernels that are compiled keep their code. The
            environment variable ``KC_OPTIMIZE``, 0 or 1, sets it first.
        deterministic: Whether kernels on a GPU add floats in one order, so that the same launch
            gives the same bits; on the CPU they do in any case. Threads of one block run a kernel
            that adds to elements which its launch fixes, such as a loss, and one thread runs one
            that adds to others, so it may be slow; other kernels are as they are. Another
            ``block_dim`` is another order. False by default; the environment variable
            ``KC_DETERMINISTIC``, 0 or 1, sets it first.
        verify_cuda: Whether to wait for every launch on a GPU and raise what failed there; launches
            on the CPU raise in any case.
        block_dim: Threads of a block of a GPU in launches; 0, the default, is 256, or as many as
            the registers of the kernel leave. Operators of torch and JAX do not look at it.
        report_gathers: Whether a JAX program over several devices warns, while it is compiled, of
            every operand of a kernel that all devices need whole although it is cut over them;
            False by default. The environment variable ``KC_REPORT_GATHERS``, 0 or 1, sets it first.
        perf_map: Whether kernels of the CPU that are loaded are named, with file and line, in
            ``/tmp/perf-PID.map``, where Linux's ``perf report`` looks for the names of generated
            code; False by default. Kernels that were loaded before have no name there. The
            environment variable ``KC_PERF_MAP``, 0 or 1, sets it first.
        quiet: Whether to say nothing at the start; nothing is said in any case.
    """

    __slots__ = (
        *("_block_dim", "_check_finite", "_deterministic", "_flush_denormals", "_mode"),
        *("_optimize", "_perf_map", "_report_gathers", "changes", "quiet", "verify_cuda"),
    )

    def __init__(self) -> None:
        # How often settings that launches follow were set.
        self.changes = 0
        self._mode = "release"
        self._check_finite = False
        self._flush_denormals = False
        self._optimize = True
        self._block_dim = 0
        self._deterministic = False
        self._report_gathers = False
        self._perf_map = False
        self.verify_cuda = False
        self.quiet = False
        self.mode = os.environ.get("KC_MODE", "release")
        self.check_finite = _FLAGS.get(flag := os.environ.get("KC_CHECK_FINITE", "0"), flag)
        flag = os.environ.get("KC_FLUSH_DENORMALS", "0")
        self.flush_denormals = _FLAGS.get(flag, flag)
        self.optimize = _FLAGS.get(flag := os.environ.get("KC_OPTIMIZE", "1"), flag)
        self.deterministic = _FLAGS.get(flag := os.environ.get("KC_DETERMINISTIC", "0"), flag)
        self.report_gathers = _FLAGS.get(flag := os.environ.get("KC_REPORT_GATHERS", "0"), flag)
        self.perf_map = _FLAGS.get(flag := os.environ.get("KC_PERF_MAP", "0"), flag)

    def __repr__(self) -> str:
        names = sorted({name.removeprefix("_") for name in self.__slots__} - {"changes"})
        return f"<config {', '.join(f'{name}={getattr(self, name)!r}' for name in names)}>"

    @property
    def mode(self) -> str:
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        if value not in MODES:
            raise KernelArgumentError(
                f"config.mode: expected {' or '.join(repr(m) for m in MODES)}, found {value!r}"
            )
        self._mode = value
        self._tell_of_change()

    @property
    def check_finite(self) -> bool:
        return self._check_finite

    @check_finite.setter
    def check_finite(self, value: bool) -> None:
        self._check_finite = _checked("check_finite", value)
        self._tell_of_change()

    @property
    def flush_denormals(self) -> bool:
        return self._flush_denormals

    @flush_denormals.setter
    def flush_denormals(self, value: bool) -> None:
        self._flush_denormals = _checked("flush_denormals", value)
        self._tell_of_change()

    @property
    def optimize(self) -> bool:
        return self._optimize

    @optimize.setter
    def optimize(self, value: bool) -> None:
        self._optimize = _checked("optimize", value)

    @property
    def deterministic(self) -> bool:
        return self._deterministic

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        self._deterministic = _checked("deterministic", value)

    @property
    def report_gathers(self) -> bool:
        return self._report_gathers

    @report_gathers.setter
    def report_gathers(self, value: bool) -> None:
        self._report_gathers = _checked("report_gathers", value)

    @property
    def perf_map(self) -> bool:
        return self._perf_map

    @perf_map.setter
    def perf_map(self, value: bool) -> None:
        self._perf_map = _checked("perf_map", value)

    @property
    def block_dim(self) -> int:
        return self._block_dim

    @block_dim.setter
    def block_dim(self, value: int) -> None:
        if not 0 <= value <= MAX_BLOCK_DIM:
            raise KernelArgumentError(
                f"config.block_dim: expected 0 to {MAX_BLOCK_DIM}, found {value!r}"
            )
        self._block_dim = value

    @property
    def checks_bounds(self) -> bool:
        """Whether kernels check the indices of arrays."""
        return self._mode == "debug"

    @property
    def checks(self) -> tuple[bool, bool]:
        """Which checks kernels make: of the indices of arrays, and of what they write."""
        return self.checks_bounds, self._check_finite

    @property
    def followed(self) -> tuple[bool, ...]:
        """The settings of kernels that launches and eager calls follow."""
        return *self.checks, self._flush_denormals

    def _tell_of_change(self) -> None:
        self.changes += 1
        for changed in on_change:
            changed()


def _checked(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise KernelArgumentError(f"config.{name}: expected a bool, found {value!r}")
    return value


config = Config()


@contextmanager
def python_mode() -> Generator[None]:
    """Run the kernels that are launched inside as plain Python, as ``config.mode = 'python'``."""
    before = config.mode
    config.mode = "python"
    try:
        yield
    finally:
        config.mode = before


@contextmanager
def check_finite(enabled: bool = True) -> Generator[None]:
    """Check inside that kernels write no NaN and no infinity, or do not, as ``enabled`` says."""
    before = config.check_finite
    config.check_finite = enabled
    try:
        yield
    finally:
        config.check_finite = before


# What modules may set, and the only values that there are; None where any value has no effect:
# adjoints are made when they are asked for, and loops are unrolled where that is needed.
_MODULE_OPTIONS: dict[str, object] = {
    "enable_backward": None,
    "max_unroll": None,
    "block_dim": None,
    "fast_math": False,
    "fuse_fp": False,
}
_of_modules: dict[str, dict[str, object]] = {}


def set_module_options(options: Mapping[str, Any], module: Any = None) -> None:
    """Set options of the kernels of a module.

    Args:
        options: By name: 'enable_backward', 'max_unroll' and 'block_dim' have no effect here;
            'fast_math' and 'fuse_fp' can only be False, since results are those of IEEE 754.
        module: The module, or its name; that of the caller by default.

    Raises:
        KernelArgumentError: There is no such option, or it has another value.
    """
    check_module_options("set_module_options", options)
    _of_modules.setdefault(_module_name(module), {}).update(options)


def check_module_options(caller: str, options: Mapping[str, Any]) -> None:
    """Check ``options`` of the kernels of a module, which were given to ``caller``.

    Raises:
        KernelArgumentError: There is no such option, or it has another value.
    """
    for name, value in options.items():
        if name not in _MODULE_OPTIONS:
            raise KernelArgumentError(
                f"{caller}: expected options among {', '.join(_MODULE_OPTIONS)}, found {name!r}"
            )
        only = _MODULE_OPTIONS[name]
        if only is not None and value != only:
            raise KernelArgumentError(
                f"{caller}: {name}: expected {only}, found {value!r}", remedy="leave it out"
            )


def get_module_options(module: Any = None) -> dict[str, Any]:
    """The options that were set for a module, by default that of the caller."""
    return dict(_of_modules.get(_module_name(module), {}))


def _module_name(module: Any) -> str:
    if module is None:
        return str(sys._getframe(2).f_globals.get("__name__"))  # pyright: ignore[reportPrivateUsage]
    return str(getattr(module, "__name__", module))
