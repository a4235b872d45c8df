"""The directory of the disk cache: how large it grows, and what other users can do to it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelcore.base import disk_cache
from kernelcore.base.disk_cache import DiskCache, default_cache, size_limit
from kernelcore.base.errors import KernelArgumentError
from tests.helpers.cache_entries import KEY, intact


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


STRANGER = 65534


def as_stranger(act: Callable[[], object]) -> bool:
    """Whether ``act`` succeeds in a process of another user."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(STRANGER)
        os.setuid(STRANGER)
        try:
            act()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory in which all users may write, as in /tmp."""
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        os.chmod(path, 0o1777)
        yield Path(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
@pytest.mark.filterwarnings(r"ignore:.*fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
def test_another_user_can_neither_read_nor_damage_nor_plant_entries(shared: Path) -> None:
    cache = DiskCache(str(shared / "kernels"))
    assert cache.store(KEY, b"code")
    entry, other = shared / "kernels" / f"{KEY}.o", shared / "kernels" / f"{'1' * 32}.o"
    assert not as_stranger(entry.read_bytes)
    assert not as_stranger(lambda: os.listdir(cache.directory))
    assert not as_stranger(lambda: entry.write_bytes(b"bad"))
    assert not as_stranger(entry.unlink)
    assert not as_stranger(lambda: other.write_bytes(b"bad"))
    assert not as_stranger(lambda: os.rename(cache.directory, shared / "away"))
    # Of a directory that the user opened to readers, entries are private still.
    os.chmod(cache.directory, 0o755)
    assert not as_stranger(entry.read_bytes)
    assert cache.load(KEY) == b"code"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
@pytest.mark.filterwarnings(r"ignore:.*fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
def test_what_another_user_prepared_is_not_used(shared: Path) -> None:
    mine = DiskCache(str(shared / "mine"))
    assert mine.store(KEY, b"code")
    foreign, link = shared / "foreign", shared / "link"

    def prepare() -> None:
        foreign.mkdir(0o777)
        foreign.chmod(0o777)
        (foreign / f"{KEY}.o").write_bytes(intact(f"{KEY}.o", b"bad"))
        link.symlink_to(shared / "mine")

    assert as_stranger(prepare)
    planted = mine.directory + f"/{'1' * 32}.o"
    os.rename(foreign / f"{KEY}.o", planted)
    assert mine.load("1" * 32) is None
    for path, problem in ((foreign, "belongs to the user"), (link, "is a link of the user")):
        cache = DiskCache(str(path))
        with pytest.warns(UserWarning, match=f"{problem} {STRANGER}"):
            assert cache.load(KEY) is None
        assert not cache.store("2" * 32, b"code")
    assert not (shared / "mine" / f"{'2' * 32}.o").exists()
    # What this user links to is used.
    own = shared / "own"
    own.symlink_to(shared / "mine")
    assert DiskCache(str(own)).load(KEY) == b"code"


def test_a_directory_of_all_users_does_not_replace_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KC_CACHE", "KC_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert default_cache() is None


SIZES = {"": 1 << 30, "0": 0, "1000": 1000, "512M": 512 << 20, "2G": 2 << 30, "3 kb": 3 << 10}
SIZES |= {"1TiB": 1 << 40, " 5m ": 5 << 20}


@pytest.mark.parametrize("text", SIZES)
def test_sizes_of_the_cache_are_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE_SIZE", text)
    assert size_limit() == SIZES[text]


@pytest.mark.parametrize("text", ["much", "-1", "1.5G", "2X", "G", "1 2", "9" * 40])
def test_other_sizes_are_refused(
    text: str, monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    monkeypatch.setenv("KC_CACHE_SIZE", text)
    with pytest.raises(KernelArgumentError, match="KC_CACHE_SIZE: expected a size") as caught:
        DiskCache(str(directory)).store(KEY, b"code")
    assert "0 stands for no limit" in str(caught.value)


def numbered(number: int) -> str:
    return f"{number:032x}"


def last_used(path: Path, days_ago: float) -> None:
    then = time.time() - 86_400 * days_ago
    os.utime(path, (then, then))


def test_what_was_not_used_for_longest_is_removed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KC_CACHE_SIZE", "64K")
    cache, launches = DiskCache(str(directory)), DiskCache(str(directory), "launch")
    for number in range(16):
        assert (launches if number % 2 else cache).store(numbered(number), bytes(4000))
        kind = "launch" if number % 2 else "o"
        last_used(directory / f"{numbered(number)}.{kind}", 20 - number)
    notes = [directory / name for name in ("notes.txt", f"{KEY}.py", f"{KEY}.o.bak")]
    for path in notes:
        path.write_bytes(bytes(100_000))
        last_used(path, 100)
    assert len(list(directory.iterdir())) == 19
    assert cache.load(numbered(0)) is not None  # It is used again.
    assert cache.store(numbered(16), bytes(4000))
    left = sorted(int(p.name[:32], 16) for p in directory.iterdir() if p not in notes)
    assert left == [0, *range(4, 17)]
    assert all(path.exists() for path in notes)


def test_without_a_limit_nothing_is_removed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KC_CACHE_SIZE", "0")
    for number in range(50):
        assert DiskCache(str(directory)).store(numbered(number), bytes(40_000))
    assert len(list(directory.iterdir())) == 50


def test_use_is_written_down_once_a_day(directory: Path) -> None:
    cache = DiskCache(str(directory))
    cache.store(KEY, b"code")
    path = directory / f"{KEY}.o"
    for days, is_new in ((0.5, False), (1.5, True)):
        last_used(path, days)
        before = path.stat().st_mtime_ns
        for _ in range(3):
            assert cache.load(KEY) == b"code"
        assert (path.stat().st_mtime_ns != before) == is_new
        assert (time.time() - path.stat().st_mtime < 3600) == is_new


def test_the_cache_is_looked_through_seldom(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(disk_cache, "_evict", lambda *args: looks.append(1))
    monkeypatch.setenv("KC_CACHE_SIZE", "16M")
    for number in range(2048):
        DiskCache(str(directory)).store(numbered(number), bytes(4000))
    assert 4 <= len(looks) <= 40  # 16 on average; it is chance


def test_what_a_killed_process_left_is_removed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KC_CACHE_SIZE", "64K")
    cache = DiskCache(str(directory))
    cache.store(KEY, b"code")
    old, new = (directory / f".{KEY}.{digit * 16}" for digit in "ab")
    for path in (old, new):
        path.write_bytes(b"half")
    last_used(old, 1)
    cache.store(numbered(3), bytes(4000))
    assert (old.exists(), new.exists()) == (False, True)


def test_a_store_that_fails_leaves_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError

    cache = DiskCache(str(directory))
    assert cache.store(KEY, b"code")
    monkeypatch.setattr(os, "replace", refuse)
    assert not cache.store(numbered(1), b"code")
    assert [p.name for p in directory.iterdir()] == [f"{KEY}.o"]
