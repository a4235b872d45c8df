"""``pytest -p tests.cuda.plugin``: suites for a GPU against the fake driver, on the processor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelcore.compiled import Direct
from tests import kernel_harness
from tests.cuda import fake


@pytest.fixture(scope="session", autouse=True)
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    driver = fake.install(fake.build(tmp_path_factory.mktemp("driver")))
    known = fake.KnownKernels(driver)

    def on_device(direct: Direct, ordinal: int, *, is_serial: bool = False) -> object:
        return known.on_device(direct, ordinal, is_serial=is_serial)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Direct, "on_device", on_device)
        # What tests run by themselves, as an oracle, has no driver.
        patch.setattr(kernel_harness, "IS_CPU", True)
        yield
