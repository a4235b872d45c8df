"""The reference of the site has every public name, and no other."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import kernelcore as kc
from kernelcore.builtins import BUILTINS, LIBRARY
from kernelcore.frontend.calls.intrinsics import Intrinsic
from kernelcore.language.composite_types import CLASSES
from tests.helpers.documents import blocks
from tests.helpers.environment import ROOT
from tools.builtin_table import builtin_tables

REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*REFERENCE.glob("python/*.md"), *REFERENCE.glob("builtins/*.md")])
# Described in the text of pages.
IN_PROSE = {"types", "config"}


def described() -> set[tuple[str, str]]:
    """The modules and names that directives of the pages ask for."""
    found: set[tuple[str, str]] = set()
    for path in PAGES:
        module = ""
        for directive, name in re.findall(r"^\.\. (\w+):: ([\w.]+)$", path.read_text(), re.M):
            if directive == "currentmodule":
                module = name
            else:
                found.add((module, name))
    return found


def test_every_public_name_is_described() -> None:
    named = {name for module, name in described() if module == "kernelcore"}
    text = (REFERENCE / "python" / "types.md").read_text()
    constants = set(re.findall(r"`(\w+)`", text.partition("## Constants")[2]))
    missing = {
        name
        for name in dir(kc)
        if not name.startswith("__")
        and name not in named | constants | BUILTINS.keys() | LIBRARY.keys() | CLASSES.keys()
        and not isinstance(getattr(kc, name), Intrinsic)
    }
    assert missing == IN_PROSE


def test_what_is_described_exists() -> None:
    assert [
        (module, name)
        for module, name in sorted(described())
        if not hasattr(importlib.import_module(module), name)
    ] == []


def test_every_topic_of_built_ins_has_a_page() -> None:
    topics = {module.rpartition(".")[2] for module in builtin_tables()}
    assert topics == {path.stem for path in (REFERENCE / "builtins").glob("*.md")}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_page_has_an_example(path: Path) -> None:
    assert blocks(path)
