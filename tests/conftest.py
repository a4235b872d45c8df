"""Options and fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import kernelcore as kc
from kernelcore import _native
from tests.helpers.golden import GOLDEN, GoldenErrors, module_of

ERRORS = pytest.StashKey[GoldenErrors]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what tests see to the golden files"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ERRORS] = GoldenErrors(config)
    config.pluginmanager.register(config.stash[ERRORS])


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
def golden_error(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden_error(case, text)`` compares ``text`` with a section of the module's errors."""
    errors, module = request.config.stash[ERRORS], module_of(request.node.nodeid)
    return lambda case, text: errors.check(module, case, text)


@pytest.fixture
def eager_sharing() -> Iterator[None]:
    """Threads share every run, so that small ones show what large ones would."""
    before = kc.num_threads()
    _native.set_eager_sharing(True)
    yield
    _native.set_eager_sharing(False)
    kc.set_num_threads(before)
