"""The fake driver as a fixture."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kernelcore.compiler import ptx_code
from kernelcore.launch.executable import Executable
from kernelcore.runtime import stream
from tests.cuda import fake


def _forget() -> None:
    """Forget what is known of the devices of another driver."""
    ptx_code.architecture_of.cache_clear()
    stream._streams.set(None)  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(scope="session")
def library() -> object:
    return fake.build()


@pytest.fixture
def driver(library, monkeypatch: pytest.MonkeyPatch) -> Iterator[fake.FakeDriver]:
    """The driver of this process, which has two devices of sm_90 and no calls so far."""
    _forget()
    found = fake.install(library)
    known = fake.KnownKernels(found)

    def on_device(executable: Executable, ordinal: int, *, is_serial: bool = False) -> object:
        return known.on_device(executable, ordinal, is_serial=is_serial)

    monkeypatch.setattr(Executable, "on_device", on_device)
    found.clear()
    yield found
    gc.collect()
    fake.remove()
    _forget()
