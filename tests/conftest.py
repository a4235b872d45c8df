"""Options and fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kernelcore as kc
from kernelcore import _native

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what tests see to the golden files"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(path, text)`` compares ``text`` with the file at ``path`` in tests/golden."""

    def check(path: str, text: str) -> None:
        file = GOLDEN / path
        found = text.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(found)
        assert file.exists(), f"{file} is missing: run pytest --update-golden"
        assert found == file.read_text()

    return check


@pytest.fixture
def eager_sharing() -> Iterator[None]:
    """Threads share every run, so that small ones show what large ones would."""
    before = kc.num_threads()
    _native.set_eager_sharing(True)
    yield
    _native.set_eager_sharing(False)
    kc.set_num_threads(before)
