"""Threads of launches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kernelcore as kc


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = kc.num_threads()
    kc.set_num_threads(4)
    yield
    kc.set_num_threads(before)
