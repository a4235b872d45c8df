"""What the disk cache knows of launches of a kernel, found by its text without building its IR.

The key of an entry is that of all that decides the IR, which closed kernels have as text.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any

import ml_dtypes
import numpy as np

from kernelcore.base import native
from kernelcore.base.config import config
from kernelcore.base.disk_cache import KEY_DIGITS, DiskCache, default_cache
from kernelcore.base.errors import KernelError
from kernelcore.base.host import host
from kernelcore.base.source_digest import package_version
from kernelcore.compiler.launch_descriptor import LaunchDescriptor
from kernelcore.compiler.native_code import resolve
from kernelcore.frontend.closed import close
from kernelcore.frontend.source import Source, read_source
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.ir.core import Func
from kernelcore.language.types import SourceType
from kernelcore.passes.pipeline import normalize

# The names of entries end in this; those of machine code are of another kind.
KIND = "launch"


@dataclass(frozen=True, slots=True)
class Recalled:
    """What launches on the CPU ask of a kernel.

    Attributes:
        code: The content hash of its machine code.
        has_arrays: Whether a parameter is an array, and no composite that is passed by value.
        described: What native launchers know of it.
    """

    code: str
    has_arrays: bool
    described: LaunchDescriptor

    def signature(self) -> native.LaunchDescriptor | None:
        """The kernel as native launchers take it; None if its code is gone."""
        address = resolve(self.code)
        return None if address is None else self.described.signature(self.code, address)


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the disk cache keeps what it knows of one kernel."""

    disk: DiskCache
    key: str

    def load(self) -> Recalled | None:
        """What an earlier process stored."""
        stored = self.disk.load(self.key)
        if stored is None:
            return None
        row = json.loads(stored)
        return Recalled(row["code"], row["has_arrays"], LaunchDescriptor(**row["described"]))

    def store(self, found: Recalled) -> None:
        """Keep ``found`` for later processes."""
        self.disk.store(self.key, json.dumps(asdict(found)).encode())


class Reading:
    """A kernel as it was when it was first needed: its text, and the values around it.

    Its IR may be built later, when names around it have other values.
    """

    def __init__(self, pyfunc: Callable[..., Any], types: Sequence[SourceType] | None) -> None:
        self._pyfunc = pyfunc
        self._types = types
        self._settings = _settings()
        self._checks_bounds = config.checks_bounds
        self._closed = None if types is None else close(read_source(pyfunc), types)

    @cached_property
    def func(self) -> Func:
        """The kernel as normalized IR.

        Raises:
            KernelError: The source is not in the kernel language; says where.
        """
        # Another thread may find at the same time that the copy lacks something.
        closed = self._closed
        if closed is not None:
            try:
                return self._built(closed.source)
            except KernelError:
                # The copy may lack what is read, and what messages tell.
                self._closed = None
        return self._built(None)

    def _built(self, source: Source | None) -> Func:
        found = specialize_kernel(self._pyfunc, self._types, source)
        return normalize(found, self._checks_bounds)

    def entry(self) -> Entry | None:
        """Where launches of the kernel are kept.

        None where more than is known decides its code, or it is compiled with other settings now.
        """
        disk = default_cache(KIND)
        if disk is None or self._key is None or self._settings != _settings() or not _is_ieee():
            return None
        return Entry(disk, self._key) if self._closed is not None else None

    @cached_property
    def _key(self) -> str | None:
        closed = self._closed
        if closed is None or package_version() is None:
            return None
        text = "\0".join((closed.text, repr(self._settings), repr(host()), _environment()))
        # Names of files may hold what UTF-8 cannot.
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:KEY_DIGITS]


def _settings() -> tuple[object, ...]:
    return config.mode, config.optimize, config.deterministic


@cache
def _environment() -> str:
    """What reads kernels and folds their constants: kernelcore, Python, NumPy, the C library."""
    versions = sys.version, np.__version__, ml_dtypes.__version__, _c_library()
    return repr((package_version(), versions))


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
