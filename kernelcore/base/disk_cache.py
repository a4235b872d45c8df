"""Machine code on disk, by content hash; what is not intact or not ours is never loaded.

An entry is a SHA-256 digest, of its name and of what it holds, then what it holds. Environment:

    KC_CACHE=0       switches the cache off
    KC_CACHE_DIR     chooses the directory, which belongs to the user, and only the user can write
    KC_CACHE_SIZE    how much it holds, as 512M, 2G, or bytes; 1G by default, 0 for no limit

Beyond that size the entries are removed that were not used for longest. The time of change of an
entry is when it was last used, to the day.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from kernelcore.base.dataclass import dataclass
from kernelcore.base.digest import sha256
from kernelcore.base.errors import KernelArgumentError
from kernelcore.base.lazy import Deferred

if TYPE_CHECKING:
    import shutil
else:
    shutil = Deferred("shutil")

KEY_DIGITS = 32
# What names end in: machine code, PTX, descriptions of processors and of launches, IR, sources.
KINDS = ("o", "ptx", "host", "launch", "ir", "sources")
DEFAULT_SIZE_BYTES = 1 << 30

_KEY = re.compile(f"[0-9a-f]{{{KEY_DIGITS}}}")
_ENTRY = re.compile(f"[0-9a-f]{{{KEY_DIGITS}}}\\.({'|'.join(KINDS)})")
# Entries that are being written, or that a process which was killed left behind.
_UNFINISHED = re.compile(f"\\.[0-9a-f]{{{KEY_DIGITS}}}\\.[0-9a-f]{{16}}")
_UNFINISHED_SECONDS = 3600
_DIGEST_BYTES = sha256().digest_size
_DAY_SECONDS = 86_400
# How often a process looks for entries to remove while it stores as many bytes as the limit has,
# and the part of the limit that is free after a removal.
_SCANS_PER_LIMIT, _FREE_PART = 32, 1 / 8
# File systems keep files in blocks.
_BLOCK_BYTES, _STATUS_BLOCK_BYTES = 4096, 512
_SIZE = re.compile(r"(\d{1,18})\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
# Do not follow a link that has the name of an entry, and do not wait for a writer of a pipe.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# The directories that this process has told its user about.
_refused: set[str] = set()


def key_of(*texts: str) -> str:
    """The key of an entry that ``texts`` decide."""
    joined = "\0".join(texts).encode(errors="surrogatepass")
    return sha256(joined).hexdigest()[:KEY_DIGITS]


@dataclass(frozen=True, slots=True)
class DiskCache:
    """A directory of entries that only its owner can reach.

    Attributes:
        directory: Where the entries are.
        suffix: What the names of entries end in, so that one directory holds several kinds.
    """

    directory: str
    suffix: str = "o"

    def entries(self) -> list[os.DirEntry[str]]:
        """The files of all entries, intact or not."""
        return sorted(self._files(), key=lambda file: file.name)

    def load(self, key: str) -> bytes | None:
        """The code under ``key``, or None where there is none that is intact and ours."""
        # Keys may come from stored programs, and must not lead elsewhere.
        if not _KEY.fullmatch(key):
            return None
        name = f"{key}.{self.suffix}"
        try:
            with self._opened() as folder:
                file = os.open(name, _READ, dir_fd=folder)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            if status.st_uid != os.getuid() or not stat.S_ISREG(status.st_mode):
                return None
            with open(file, "rb", buffering=0, closefd=False) as stream:
                entry = stream.read()
            code = entry[_DIGEST_BYTES:]
            if _digest(name, code) != entry[:_DIGEST_BYTES]:
                return None
        except OSError:
            return None
        else:
            if status.st_mtime + _DAY_SECONDS < time.time():
                # Where it cannot be written down, the entry may be removed sooner.
                with contextlib.suppress(OSError):
                    os.utime(file)
            return code
        finally:
            os.close(file)

    def store(self, key: str, code: bytes) -> bool:
        """Keep ``code`` under ``key``; False where the directory cannot be used.

        Raises:
            KernelArgumentError: KC_CACHE_SIZE cannot be read as a number of bytes.
        """
        limit_bytes = size_limit()
        try:
            if not os.path.isdir(self.directory):
                os.makedirs(self.directory, mode=0o700, exist_ok=True)
            with self._opened() as folder:
                _write(folder, f"{key}.{self.suffix}", code)
                # All processes together scan that often while they store the limit.
                chance = _blocks(len(code)) * _SCANS_PER_LIMIT / limit_bytes if limit_bytes else 0.0
                if int.from_bytes(os.urandom(4), "little") < chance * (1 << 32):
                    _evict(folder, limit_bytes)
        except OSError:
            return False
        return True

    @contextlib.contextmanager
    def _opened(self) -> Generator[int]:
        """A descriptor of the directory, which what happens to its path does not change.

        Raises:
            OSError: There is none, or others could read, change or exchange its entries.
        """
        folder, problem = _open_directory(self.directory)
        try:
            problem = problem or _problem(os.fstat(folder))
            if problem is not None:
                _tell(self.directory, problem)
                raise PermissionError(problem)
            yield folder
        finally:
            os.close(folder)

    def _files(self) -> Iterator[os.DirEntry[str]]:
        # Caches of some 100,000 entries take seconds to list and sort.
        with contextlib.suppress(OSError), os.scandir(self.directory) as files:
            for file in files:
                stem, _, suffix = file.name.rpartition(".")
                if suffix == self.suffix and _KEY.fullmatch(stem):
                    yield file


def size_limit() -> int:
    """How many bytes of files the cache may hold, as the environment asks; 0 for no limit.

    Raises:
        KernelArgumentError: KC_CACHE_SIZE cannot be read as a number of bytes.
    """
    text = os.environ.get("KC_CACHE_SIZE", "").strip()
    if not text:
        return DEFAULT_SIZE_BYTES
    found = _SIZE.fullmatch(text)
    if found is None:
        raise KernelArgumentError(
            f"KC_CACHE_SIZE: expected a size as 512M, 2G or 1000000, found {text!r}",
            remedy="unset it for 1G; 0 stands for no limit, and KC_CACHE=0 switches the cache off",
        )
    return int(found[1]) << _UNITS[found[2].upper()]


def _digest(name: str, code: bytes) -> bytes:
    # With the name, since an intact entry under the name of another one is wrong.
    digest = sha256(name.encode())
    digest.update(code)
    return digest.digest()


def _write(folder: int, name: str, code: bytes) -> None:
    """Write an entry, of which readers see all or nothing.

    Raises:
        OSError: It cannot be written.
    """
    unfinished = f".{name[:KEY_DIGITS]}.{os.urandom(8).hex()}"
    is_done = False
    try:
        file = os.open(unfinished, _WRITE, 0o600, dir_fd=folder)
        try:
            left = memoryview(_digest(name, code) + code)
            while left:
                left = left[os.write(file, left) :]
        finally:
            os.close(file)
        try:
            os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except (IsADirectoryError, NotADirectoryError):
            shutil.rmtree(name, dir_fd=folder)
            os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        is_done = True
    finally:
        # Also where an interruption ends it.
        if not is_done:
            with contextlib.suppress(OSError):
                os.unlink(unfinished, dir_fd=folder)


def _blocks(size_bytes: int) -> int:
    """The bytes that a file of a digest and ``size_bytes`` takes."""
    return -(-(size_bytes + _DIGEST_BYTES) // _BLOCK_BYTES) * _BLOCK_BYTES


def _evict(folder: int, limit_bytes: int) -> None:
    """Remove what was not used for longest, until a part of ``limit_bytes`` is free.

    Nothing is locked. Processes that do so at once choose the same entries, and one that wants an
    entry which is gone makes it again.

    Raises:
        OSError: The directory cannot be read.
    """
    found: list[tuple[float, int, str]] = []
    now = time.time()
    with os.scandir(folder) as files:
        for file in files:
            is_entry = _ENTRY.fullmatch(file.name) is not None
            if not is_entry and not _UNFINISHED.fullmatch(file.name):
                continue
            with contextlib.suppress(OSError):
                status = file.stat(follow_symlinks=False)
                size_bytes = status.st_blocks * _STATUS_BLOCK_BYTES
                if is_entry:
                    found.append((status.st_mtime, size_bytes, file.name))
                elif status.st_mtime + _UNFINISHED_SECONDS < now:
                    os.unlink(file.name, dir_fd=folder)
    total_bytes = sum(size_bytes for _, size_bytes, _ in found)
    if total_bytes <= limit_bytes:
        return
    for _, size_bytes, name in sorted(found):
        if total_bytes <= limit_bytes * (1 - _FREE_PART):
            return
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        total_bytes -= size_bytes


def default_cache(suffix: str = "o") -> DiskCache | None:
    """The cache that the environment asks for, or None where it is off; machine code ends in o."""
    if os.environ.get("KC_CACHE", "1") == "0":
        return None
    chosen = os.environ.get("KC_CACHE_DIR")
    directory = os.path.expanduser(chosen or os.path.join(_user_cache_dir(), "kernelcore"))
    # There may be no home directory. A directory for all users, as /tmp is, does not replace it.
    return None if directory.startswith("~") else DiskCache(directory, suffix)


def _user_cache_dir() -> str:
    if sys.platform == "darwin":
        return os.path.join("~", "Library", "Caches")
    return os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")


def _open_directory(path: str) -> tuple[int, str | None]:
    """A descriptor of the directory, and why ``path`` cannot be trusted to lead to it."""
    try:
        return os.open(path, _DIRECTORY | os.O_NOFOLLOW), None
    except OSError:
        # It may be a link, whose owner can lead it to any other directory of this user.
        owner = os.lstat(path).st_uid
        problem = None if owner in (os.getuid(), 0) else f"is a link of the user {owner}"
        return os.open(path, _DIRECTORY), problem


def _problem(status: os.stat_result) -> str | None:
    """Why a directory of this ``status`` is not one of this user alone."""
    if status.st_uid != os.getuid():
        return f"belongs to the user {status.st_uid}, and this process runs as {os.getuid()}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def _tell(directory: str, problem: str) -> None:
    if directory in _refused:
        return
    _refused.add(directory)
    warnings.warn(
        f"kernels are not kept: the cache directory {directory} {problem}; set KC_CACHE_DIR to a "
        f"directory of this user with mode 700, or KC_CACHE=0 to compile without a cache",
        stacklevel=2,
    )
