"""``pytest -p tests.cuda.plugin``: suites for a GPU against the fake driver, on the processor.

``KC_TEST_DEVICE=cuda:0`` chooses the device, as on a machine that has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kernelcore.ir.core import Func
from kernelcore.launch.executable import Executable
from kernelcore.passes.access.accumulation_plan import Order
from tests.cuda import fake
from tests.device import driver, gpu


@contextmanager
def fake_gpu() -> Iterator[None]:
    """The fake driver is that of kernelcore, and of what tests load by themselves."""
    with pytest.MonkeyPatch.context() as patch:
        library = fake.build()
        found = fake.install(library)
        known, load = fake.KnownKernels(found), gpu.load

        def on_device(executable: Executable, ordinal: int, *, is_serial: bool = False) -> object:
            return known.on_device(executable, ordinal, is_serial=is_serial)

        def loaded(func: Func, order: Order = Order.ANY) -> object:
            found.know_as(gpu.symbol_of(func, order), func)
            return load(func, order)

        patch.setattr(Executable, "on_device", on_device)
        patch.setattr(gpu, "load", loaded)
        patch.setattr(driver, "LIBRARY", str(library))
        yield


@pytest.fixture(scope="session", autouse=True)
def fake_driver() -> Iterator[None]:
    with fake_gpu():
        yield
