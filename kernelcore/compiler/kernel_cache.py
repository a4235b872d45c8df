"""What the disk cache knows of a kernel, found by the key of its definition without the compiler.

Per kernel: its launch descriptors, by what runs it; and its IR, for what a launch does not need.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelcore.base.config import config
from kernelcore.base.dataclass import dataclass, replace
from kernelcore.base.disk_cache import DiskCache, default_cache, key_of
from kernelcore.base.host import host, package_text
from kernelcore.base.lazy import Deferred
from kernelcore.base.literal import read
from kernelcore.base.source_digest import package_version
from kernelcore.language.definition_key import definition_key
from kernelcore.language.types import SourceType

if TYPE_CHECKING:
    from kernelcore.compiler import func_text
    from kernelcore.ir.core import Func
else:
    func_text = Deferred("kernelcore.compiler.func_text")

# The names of entries end in these.
LAUNCH, IR = "launch", "ir"


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """Where the disk cache keeps what it knows of one kernel.

    Attributes:
        definition: The key of the definition.
        settings: What kernels were compiled with when the key was made.
    """

    definition: str
    settings: tuple[object, ...]

    def of_part(self, name: str) -> KernelEntry:
        """Where the cache keeps what is derived from the kernel under ``name``."""
        return replace(self, definition=key_of(self.definition, name))

    def load(self, what: str) -> Any:
        """What is known of the kernel under the name ``what``; None if nothing is."""
        disk = self._disk(LAUNCH)
        stored = disk.load(self._key(what)) if disk else None
        return None if stored is None else read(stored)

    def store(self, what: str, value: object) -> None:
        """Keep ``value``, of which Python has a literal, for later processes."""
        if disk := self._disk(LAUNCH):
            disk.store(self._key(what), repr(value).encode())

    def load_func(self) -> Func | None:
        """The normalized IR of the kernel."""
        disk = self._disk(IR)
        stored = disk.load(self._key(IR)) if disk else None
        return None if stored is None else func_text.loads(stored)

    def store_func(self, func: Func) -> None:
        """Keep for later processes what ``load_func`` gives, unless it is nested too deeply."""
        if disk := self._disk(IR):
            with suppress(RecursionError):
                disk.store(self._key(IR), func_text.dumps(func))

    def _disk(self, suffix: str) -> DiskCache | None:
        """The cache; None where the kernel would be another one now."""
        return default_cache(suffix) if self.settings == _settings() and _is_ieee() else None

    def _key(self, what: str) -> str:
        return key_of(repr((self.definition, self.settings, host(), _environment(), what)))


def recall(
    entry: Callable[[], KernelEntry | None],
    what: str,
    is_right: Callable[[Any], bool],
    find: Callable[[], Any],
) -> Any:
    """What the cache has at ``entry`` as ``what``; else what ``find`` gives, which is kept.

    Args:
        entry: Says where the cache keeps the kernel, if it does; asked again after ``find``, which
            may read another kernel than the one that the cache knows.
        what: The name.
        is_right: Whether a literal may be what ``find`` gives.
        find: Computes it.
    """
    place = entry()
    known = place and place.load(what)
    if not is_right(known):
        known = find()
        if place := entry():
            place.store(what, known)
    return known


def kernel_entry(
    pyfunc: Callable[..., Any], types: Sequence[SourceType], *, flush_denormals: bool = False
) -> KernelEntry | None:
    """Where the cache keeps the kernel ``pyfunc`` for parameters of ``types``.

    The result is None if there is no cache, or if the kernel uses a value that has no key.
    """
    if default_cache(LAUNCH) is None or package_version() is None:
        return None
    key = definition_key(pyfunc, types)
    if key is not None and flush_denormals:
        key = key_of(key, "flush_denormals")
    return None if key is None else KernelEntry(key, _settings())


def _settings() -> tuple[object, ...]:
    return config.mode, config.check_finite, config.optimize, config.deterministic


@cache
def _environment() -> tuple[object, ...]:
    """What reads kernels and folds their constants: kernelcore, Python, NumPy, the C library."""
    versions = sys.version, np.__version__, package_text("ml_dtypes", "__init__.py"), _c_library()
    return package_version(), *versions


def _c_library() -> str | None:
    """The version of the C library; of the system where that has them together."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, OSError, ValueError):
        return platform.version()


def _is_ieee() -> bool:
    """Whether this thread folds constants as others do: some flush small numbers, or round up."""
    least, step = sys.float_info.min, sys.float_info.epsilon
    return least * 0.5 > 0.0 and 1.0 + step * 0.5 == 1.0 < 1.0 + step * 0.75
