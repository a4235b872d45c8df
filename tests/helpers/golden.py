"""Golden texts of errors: one file per folder of tests, one section per case of a module.

The errors of ``tests/jax/test_structs.py`` are sections ``structs: ...`` of
``tests/golden/errors/jax.txt``. A section that no test asks for is an orphan and fails the run.
Orphans are looked for in the sections of those modules whose tests all ran and passed, so runs with
``-k`` or ``::`` look for none. With xdist, workers report to the controller, which alone writes
files and looks for orphans.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.environment import TESTS

GOLDEN = TESTS / "golden"
HEADING = re.compile(r"^== (.+) ==\n", re.MULTILINE)
Sections = dict[str, str]


def module_of(node_id: str) -> str:
    return node_id.partition("::")[0]


def errors_file(module: str) -> Path:
    """The golden file of a module of tests, which is given by its path in the repository."""
    return GOLDEN / "errors" / f"{Path(module).parts[1]}.txt"


def section_of(module: str, case: str) -> str:
    """The section of a case of a module of tests."""
    path = Path(*Path(module).parts[2:])
    return f"{path.with_name(path.stem.removeprefix('test_')).as_posix()}: {case}"


def read_sections(path: Path) -> Sections:
    """The sections of ``path``; none if there is no such file."""
    parts = HEADING.split(path.read_text()) if path.exists() else [""]
    return {name: text.strip("\n") for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def write_sections(path: Path, sections: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(f"== {name} ==\n{sections[name]}\n" for name in sorted(sections)))


class GoldenErrors:
    """Pytest plugin: compares errors with their golden sections, and finds orphans."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.update = bool(config.getoption("--update-golden"))
        # By module: sections that tests asked for, and how many tests were collected and passed.
        self.asked: dict[str, Sections] = {}
        self.collected: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.orphans: list[str] = []
        self._known: dict[Path, Sections] = {}

    def check(self, module: str, case: str, text: str) -> None:
        """Compare ``text`` with section ``case`` of the golden file of ``module``."""
        text = text.strip("\n")
        assert not HEADING.search(text)
        section, path = section_of(module, case), errors_file(module)
        self.asked.setdefault(module, {})[section] = text
        if self.update:
            return
        if path not in self._known:
            self._known[path] = read_sections(path)
        known = self._known[path]
        assert section in known, f"{path} lacks {section}: run pytest --update-golden"
        assert text == known[section]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # Before ``-k`` takes items away.
        self.collected = Counter(module_of(item.nodeid) for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed[module_of(report.nodeid)] += report.when == "call" and report.passed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        found = getattr(node, "workeroutput", {}).get("golden_errors", {"asked": {}})
        for module, sections in found["asked"].items():
            self.asked.setdefault(module, {}).update(sections)
        # Every worker collects all tests.
        self.collected = Counter(found.get("collected", self.collected))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        worker: dict[str, Any] | None = getattr(self.config, "workeroutput", None)
        if worker is not None:
            worker["golden_errors"] = {"asked": self.asked, "collected": dict(self.collected)}
            return
        for module in self.collected:
            self._finish(module)
        if self.orphans and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _finish(self, module: str) -> None:
        path, asked = errors_file(module), self.asked.get(module, {})
        known = read_sections(path)
        mine = {name for name in known if name.startswith(section_of(module, ""))}
        unasked = mine - asked.keys() if self._ran_whole(module) else set[str]()
        if not self.update:
            self.orphans += [f"{path}: no test asks for {name}" for name in sorted(unasked)]
        elif asked or unasked:
            write_sections(path, {n: known[n] for n in known if n not in unasked} | asked)

    def _ran_whole(self, module: str) -> bool:
        by_node_id = any("::" in argument for argument in self.config.args)
        return not by_node_id and self.passed[module] == self.collected[module]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.orphans:
            terminalreporter.section("orphans among the golden errors", red=True)
            terminalreporter.write_line("\n".join(self.orphans))
