"""What threads share and a forked child inherits: properties without a lock, and held locks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ContextDecorator, ExitStack
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")

# A fork looks this often whether other threads have left ``Unforked``, and lets no others in for
# this long at first.
_PAUSE_SECONDS, _PATIENCE_SECONDS = 0.001, 1.0

_entrance = threading.RLock()
# How deep threads are in ``Unforked``.
_depths: dict[int, int] = {}


class cached_property(Generic[T]):
    """A property that is computed when it is first read, and kept in the object.

    No lock is held meanwhile, unlike by ``functools.cached_property`` of Python 3.11: computing may
    run user code, which may wait for other threads. Threads that read it at once may compute it
    each, and all get the value of the first that is done.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> T | cached_property[T]:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._compute(instance))


class Unforked(ContextDecorator):
    """A part of the program during which no other thread forks; threads may be in it at once.

    A child has one thread: what another one was changing stays as it is for ever, and a lock that
    it held stays taken.
    """

    def __enter__(self) -> None:
        thread = threading.get_ident()
        if thread in _depths:
            _depths[thread] += 1
        else:
            with _entrance:
                _depths[thread] = 1

    def __exit__(self, *error: object) -> None:
        thread = threading.get_ident()
        _depths[thread] -= 1
        if not _depths[thread]:
            del _depths[thread]


class ForkLock(Unforked):
    """A reentrant lock that no other thread holds while this process is forked."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        super().__enter__()
        with ExitStack() as undone:
            # An interruption from the keyboard ends the wait.
            undone.callback(super().__exit__)
            self._lock.acquire()
            undone.pop_all()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        super().__exit__(*error)


def _wait_for_others() -> None:
    """Wait until no other thread is in ``Unforked``, and let none in."""
    patience = _PATIENCE_SECONDS
    _entrance.acquire()
    while not _wait(patience):
        # A thread inside may wait for one that waits at the entrance, to import a module.
        _entrance.release()
        time.sleep(_PAUSE_SECONDS)
        _entrance.acquire()
        patience *= 2


def _wait(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while set(_depths) - {threading.get_ident()}:
        if time.monotonic() > end:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


os.register_at_fork(
    before=_wait_for_others,
    after_in_parent=_entrance.release,
    after_in_child=_entrance.release,
)
