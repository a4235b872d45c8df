"""Type checkers accept the code of the documents and examples, and code of users, as it is.

They run with the rules that they have by default, over the stub that a build would make.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.documents import blocks
from tests.helpers.environment import ROOT
from tools.public_stub import stub

HERE = Path(__file__).parent / "typing"
# The blocks of the first stand alone, those of the others are one script each.
DOCUMENTS = ("README.md", "docs/language.md", "docs/frameworks.md")
ADAPTERS = ("torch_ext", "jax_ffi", "paddle_ext")
# mypy reads whole packages: it takes the frameworks as given, and reports errors of users alone.
MYPY = """\
[mypy]
[mypy-kernelcore.*,torch_ext.*,jax_ffi.*,paddle_ext.*]
follow_imports = silent
[mypy-torch.*,jax.*,paddle.*,matplotlib.*]
follow_imports = skip
[mypy-tqdm.*]
ignore_missing_imports = true
"""
Errors = Mapping[str, set[int]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code to check, beside ``packages`` with kernelcore and its stub."""
    folder = tmp_path_factory.mktemp("typing")
    packages = folder / "packages"
    (packages / "kernelcore").mkdir(parents=True)
    for entry in (ROOT / "kernelcore").iterdir():
        if entry.name not in ("__init__.pyi", "__pycache__"):
            (packages / "kernelcore" / entry.name).symlink_to(entry)
    (packages / "kernelcore" / "__init__.pyi").write_text(stub())
    for name in ADAPTERS:
        (packages / name).symlink_to(ROOT / name)
    code = folder / "code"
    code.mkdir()
    for name in DOCUMENTS:
        found = [block.code for block in blocks(ROOT / name)]
        scripts = found if name == "README.md" else ["\n".join(found)]
        for k, script in enumerate(scripts):
            (code / f"{Path(name).stem.lower()}_document_{k}.py").write_text(script)
    examples = [p for p in (ROOT / "examples").rglob("*.py") if "__pycache__" not in p.parts]
    for path in (*examples, *HERE.glob("*.py")):
        # A name that starts with digits is none of a module.
        (code / path.name.lstrip("0123456789_")).write_text(path.read_text())
    return folder


@pytest.fixture(scope="module")
def found_by_pyright(folder: Path) -> Errors:
    settings = {"include": ["code"], "extraPaths": ["packages"], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(folder)]
    done = subprocess.run(
        [*command, "--pythonpath", sys.executable], capture_output=True, text=True
    )
    found: dict[str, set[int]] = {}
    for error in json.loads(done.stdout)["generalDiagnostics"]:
        if error["severity"] == "error":
            line = error["range"]["start"]["line"] + 1
            found.setdefault(Path(error["file"]).name, set()).add(line)
    return found


@pytest.fixture(scope="module")
def found_by_mypy(folder: Path) -> Errors:
    (folder / "mypy.ini").write_text(MYPY)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary"]
    files = [str(p) for p in (folder / "code").glob("*.py")]
    environment = {**os.environ, "MYPYPATH": f"{folder / 'packages'}:{folder / 'code'}"}
    done = subprocess.run(
        [*command, *files], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode < 2, done.stdout + done.stderr
    found: dict[str, set[int]] = {}
    for text in done.stdout.splitlines():
        file, line, kind = (*text.split(":", 3), "", "")[:3]
        if kind.strip() == "error":
            found.setdefault(Path(file).name, set()).add(int(line))
    return found


@pytest.fixture(params=["found_by_pyright", "found_by_mypy"])
def found(request: pytest.FixtureRequest) -> Errors:
    """What a type checker reports: lines by file."""
    return request.getfixturevalue(request.param)


def test_the_code_of_documents_examples_and_users_has_no_errors(found: Errors) -> None:
    assert found.keys() <= {"wrong_code.py"}, found


def test_every_mistake_is_found(found: Errors) -> None:
    lines = (HERE / "wrong_code.py").read_text().splitlines()
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith("# error")}
    assert len(wanted) > 10
    assert found["wrong_code.py"] == wanted


def test_no_code_switches_rules_off() -> None:
    texts = [(ROOT / name).read_text() for name in DOCUMENTS]
    texts += [p.read_text() for p in (ROOT / "examples").rglob("*.py")]
    assert [t for t in texts if "# pyright:" in t or "# type: ignore" in t] == []


def test_packages_say_that_they_are_typed() -> None:
    for name in ("kernelcore", *ADAPTERS):
        assert (ROOT / name / "py.typed").is_file()


def test_the_code_of_users_runs(tmp_path: Path) -> None:
    # Kernels do not call functions for type checkers.
    lines = (HERE / "user_code.py").read_text().splitlines()
    path = tmp_path / "user_code.py"
    path.write_text("\n".join(n for n in lines if not n.lstrip().startswith("assert_type(")))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
