"""Options and fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
