"""Digests of kernelcore's sources: made once, then known by what the system says of the files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache

from kernelcore.base.digest import sha256
from kernelcore.base.disk_cache import default_cache, key_of

# The names of the entries of the disk cache end in this.
KIND = "sources"

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
# What decides which code an Op becomes.
_CODEGEN = tuple(
    os.path.join(_PACKAGE, name) + os.sep for name in ("builtins", "codegen", "passes")
)
# Of code, which may be there without its text, and of what is compiled with it.
_CODE = (".py", ".pyc")
_SUFFIXES = (*_CODE, ".h")
# A file that has changed within this time may change again without another time of change.
_TICK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000
# What changes later is not what this process runs.
_IMPORTED_NS = time.time_ns()
_RANDOM_BYTES = 16
_DIGEST = re.compile(rb"[0-9a-f]{64}")


@cache
def codegen_version() -> str:
    """A digest of everything that decides which code an Op becomes.

    Where that was replaced while this process ran, no other process has the same.
    """
    return _version(codegen_sources()) or os.urandom(_RANDOM_BYTES).hex()


@cache
def package_version() -> str | None:
    """A digest of all sources of kernelcore; None where there are none, or they were replaced."""
    has_code = any(path.endswith(_CODE) for path in _paths())
    return _version(_paths()) if has_code else None


def codegen_sources() -> list[str]:
    """The files of ``codegen_version``."""
    return [path for path in _paths() if path.startswith(_CODEGEN)]


def _version(paths: Sequence[str]) -> str | None:
    """The digest of files, from the disk cache where they have been read before.

    None where they have changed since this process imported them.
    """
    status = [os.stat(path) for path in paths]
    # Times that are still to come are those of another clock.
    if any(_IMPORTED_NS < s.st_ctime_ns <= time.time_ns() for s in status):
        return None
    disk = default_cache(KIND) if _are_settled(status) else None
    if disk is None:
        return _digest(paths)
    rows = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in status]
    key = key_of(repr(list(zip(paths, rows, strict=True))))
    stored = disk.load(key)
    if stored is not None and _DIGEST.fullmatch(stored):
        return stored.decode()
    found = _digest(paths)
    disk.store(key, found.encode())
    return found


def _are_settled(status: Collection[os.stat_result]) -> bool:
    """Whether files of this status have what they had when they were read, as long as it holds."""
    changes = [s.st_ctime_ns for s in status]
    # Images of file systems have whole seconds, which may be equal in all versions of them; and
    # other systems than POSIX's have no time of change that nobody can set.
    is_real = os.name == "posix" and any(change % _SECOND_NS for change in changes)
    return is_real and max(changes) + _TICK_NS < time.time_ns()


def _digest(paths: Iterable[str]) -> str:
    digest = sha256()
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            text = file.read()
        digest.update(f"{path[len(_PACKAGE) :]}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.hexdigest()


@cache
def _paths() -> list[str]:
    """Every source in the package, folders of folders too."""
    return sorted(_walk(_PACKAGE))


def _walk(folder: str) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f != "__pycache__"]
        yield from (os.path.join(parent, f) for f in files if f.endswith(_SUFFIXES))
