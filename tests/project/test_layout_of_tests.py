"""Tests mirror the sources, and every golden error belongs to a test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import golden
from tests.helpers.golden import (
    GOLDEN,
    GoldenErrors,
    errors_file,
    read_sections,
    section_of,
    write_sections,
)
from tests.helpers.paths import ROOT, TESTS

MODULES = [str(path.relative_to(ROOT)) for path in TESTS.rglob("test_*.py")]


def test_the_root_holds_conftest_only() -> None:
    assert {path.name for path in TESTS.glob("*.*")} == {"conftest.py"}


def test_every_section_of_golden_errors_belongs_to_a_module() -> None:
    known = {(errors_file(module), section_of(module, "")) for module in MODULES}
    for path in (GOLDEN / "errors").iterdir():
        prefixes = {section.partition(": ")[0] for section in read_sections(path)}
        assert {(path, f"{prefix}: ") for prefix in prefixes} <= known


@pytest.mark.parametrize("update", [False, True])
@pytest.mark.parametrize("ran", ["all", "some"])
def test_sections_that_no_test_asks_for_are_orphans(
    ran: str, update: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golden, "GOLDEN", tmp_path)
    module, path = "tests/part/test_some.py", tmp_path / "errors" / "part.txt"
    others = {"other: case": "of another module"}
    before = {"some: asked": "an error", "some: orphan": "another\n\nof two lines"} | others
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
    assert errors.orphans == ([f"{path}: no test asks for some: orphan"] if fails else [])
    left = {"some: asked": "an error"} | others if ran == "all" and update else before
    assert read_sections(path) == left
