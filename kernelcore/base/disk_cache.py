"""Machine code on disk, by content hash; what is not intact or not ours is never loaded.

An entry is the SHA-256 digest of the code, then the code. ``KC_CACHE_DIR`` chooses the directory,
``KC_CACHE=0`` switches the cache off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass

KEY_DIGITS = 32

_KEY = re.compile(f"[0-9a-f]{{{KEY_DIGITS}}}")
_DIGEST_BYTES = hashlib.sha256().digest_size


def key_of(*texts: str) -> str:
    """The key of an entry that ``texts`` decide."""
    joined = "\0".join(texts).encode(errors="surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:KEY_DIGITS]


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
        try:
            if not _is_private(os.stat(self.directory)):
                return None
            with open(self._path(key), "rb", buffering=0) as file:
                if not _is_ours(os.fstat(file.fileno())):
                    return None
                entry = file.read()
        except OSError:
            return None
        digest, code = entry[:_DIGEST_BYTES], entry[_DIGEST_BYTES:]
        return code if hashlib.sha256(code).digest() == digest else None

    def store(self, key: str, code: bytes) -> bool:
        """Keep ``code`` under ``key``; False where the directory cannot be used."""
        # Readers see the whole entry or none.
        name = os.path.join(self.directory, f".{key}.{os.urandom(8).hex()}")
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            if not _is_private(os.stat(self.directory)):
                return False
            with open(name, "xb", opener=_open_private) as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(name, self._path(key))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name)
            return False
        return True

    def _files(self) -> Iterator[os.DirEntry[str]]:
        # Caches of some 100,000 entries take seconds to list and sort.
        with contextlib.suppress(OSError), os.scandir(self.directory) as files:
            for file in files:
                stem, _, suffix = file.name.rpartition(".")
                if suffix == self.suffix and _KEY.fullmatch(stem):
                    yield file

    def _path(self, key: str) -> str:
        return os.path.join(self.directory, f"{key}.{self.suffix}")


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def default_cache(suffix: str = "o") -> DiskCache | None:
    """The cache that the environment asks for, or None where it is off; machine code ends in o."""
    if os.environ.get("KC_CACHE", "1") == "0":
        return None
    chosen = os.environ.get("KC_CACHE_DIR")
    directory = os.path.expanduser(chosen or os.path.join(_user_cache_dir(), "kernelcore"))
    # There may be no home directory.
    return None if directory.startswith("~") else DiskCache(directory, suffix)


def _user_cache_dir() -> str:
    if sys.platform == "win32":
        return os.environ.get("LOCALAPPDATA") or os.path.join("~", "AppData", "Local")
    if sys.platform == "darwin":
        return os.path.join("~", "Library", "Caches")
    return os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or status.st_uid == os.getuid()


def _is_private(status: os.stat_result) -> bool:
    shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return _is_ours(status) and (not hasattr(os, "getuid") or not shared)
