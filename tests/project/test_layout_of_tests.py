"""Tests mirror the sources, and every golden error belongs to a test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import golden
from tests.helpers.golden import GOLDEN, GoldenErrors, errors_file, read_sections, write_sections
from tests.helpers.paths import ROOT, TESTS

MODULES = [str(path.relative_to(ROOT)) for path in TESTS.rglob("test_*.py")]


def test_the_root_holds_conftest_only() -> None:
    assert {path.name for path in TESTS.glob("*.*")} == {"conftest.py"}


def test_every_file_of_golden_errors_belongs_to_a_module() -> None:
    files = {path for path in (GOLDEN / "errors").rglob("*") if path.is_file()}
    assert files <= {errors_file(module) for module in MODULES}


@pytest.mark.parametrize("update", [False, True])
@pytest.mark.parametrize("ran", ["all", "some"])
def test_sections_that_no_test_asks_for_are_orphans(
    ran: str, update: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golden, "GOLDEN", tmp_path)
    module, path = "tests/part/test_some.py", tmp_path / "errors" / "part" / "some.txt"
    before = {"asked": "an error", "orphan": "another\n\nof two lines"}
    write_sections(path, before)
    assert read_sections(path) == before
    config: Any = SimpleNamespace(args=["tests"], getoption=lambda _: update)
    errors = GoldenErrors(config)
    errors.collected = Counter({module: 1 if ran == "all" else 2})
    errors.check(module, "asked", "an error")
    report: Any = SimpleNamespace(nodeid=f"{module}::test", when="call", passed=True)
    errors.pytest_runtest_logreport(report)
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    errors.pytest_sessionfinish(session)
    fails = ran == "all" and not update
    assert session.exitstatus == (pytest.ExitCode.TESTS_FAILED if fails else pytest.ExitCode.OK)
    assert errors.orphans == ([f"{path}: no test asks for orphan"] if fails else [])
    left = {"asked": "an error"} if ran == "all" and update else before
    assert read_sections(path) == left
