"""The documents name files, identifiers and make targets that exist, and stay short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelcore.ir.op import OpKind
from tests.helpers.documents import blocks
from tests.helpers.environment import ROOT

PAGES = [p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "generated"]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *PAGES])
DECISIONS = ROOT / "docs" / "decisions"
# The longest that a document may be.
MAX_LINES = {"README.md": 150, "ARCHITECTURE.md": 200, "adding.md": 80}
MAX_INTERNALS_LINES = 150
# The folder of what commands make.
MADE = "output/"
# Files of others that comments of the sources name, and names that they give to files they write.
FOREIGN_FILES = {"_version.py", "add.cc", "cuda.h", "first_kernel.py", "ops.cc", "snippet.cc"}
SOURCES = sorted(
    p
    for root in ("kernelcore", "csrc", "torch_ext", "jax_ffi", "paddle_ext")
    for p in (ROOT / root).rglob("*")
    if p.suffix in (".py", ".cc", ".h") and "third_party" not in p.parts
)
# Names in small examples.
FOREIGN = {"ct_b"}
SUFFIXES = (".py", ".cc", ".h", ".md", ".cu", ".txt", ".toml", ".sh")


def id_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def quoted(text: str) -> Iterator[str]:
    """What stands in backticks, outside of code blocks."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (found for found in re.findall(r"`([^`\n]+)`", prose))


def is_path(text: str) -> bool:
    """Whether ``text`` names a file or a folder of this repository."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", text):
        return False
    return text.endswith(SUFFIXES) or ("/" in text and (ROOT / text.split("/")[0]).is_dir())


@pytest.fixture(scope="module")
def names() -> frozenset[str]:
    """The ends of the paths of all files of the project."""
    roots = (
        "kernelcore",
        "csrc",
        "torch_ext",
        "jax_ffi",
        "paddle_ext",
        "tests",
        "docs",
        "examples",
    )
    files = (p.relative_to(ROOT) for root in roots for p in (ROOT / root).rglob("*.*"))
    return frozenset("/".join(p.parts[k:]) for p in files for k in range(len(p.parts)))


@pytest.mark.parametrize("path", DOCUMENTS, ids=id_of)
def test_named_files_exist(path: Path, names: frozenset[str]) -> None:
    found = {t for t in quoted(path.read_text()) if is_path(t) and not t.startswith(MADE)}
    missing = {t for t in found if not ((ROOT / t).exists() or t in names)}
    assert missing == set()


def test_files_that_sources_name_exist(names: frozenset[str]) -> None:
    missing = {
        f"{id_of(path)}: {name}"
        for path in SOURCES
        for line in path.read_text().splitlines()
        if "#include" not in line
        for name in re.findall(r"[\w/.-]*\w\.(?:py|cc|h|md)\b", line)
        if not ((ROOT / name).exists() or name in names or name in FOREIGN_FILES)
    }
    assert missing == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=id_of)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"`[^`\n]+`", "", path.read_text())
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose)
    local = [t for t in targets if "://" not in t]
    assert [t for t in local if not (path.parent / t).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=id_of)
def test_named_identifiers_are_in_the_named_file(path: Path) -> None:
    """A name in brackets after a file, or before it with "in" or "of", occurs in that file."""
    text = path.read_text()
    pairs = [(n, f) for f, n in re.findall(r"`([\w./]+\.\w+)` \(`(\w+)`\)", text)]
    pairs += re.findall(r"`(\w+)`\s+(?:in|of)\s+`([\w./]+/[\w.]+\.\w+)`", text)
    for name, file in pairs:
        if "/" in file:
            assert re.search(rf"\b{name}\b", (ROOT / file).read_text()), f"{name} in {file}"


@pytest.fixture(scope="module")
def words() -> frozenset[str]:
    """The identifiers of all sources and of the tests."""
    roots = ("kernelcore", "csrc", "torch_ext", "jax_ffi", "paddle_ext", "tests", "examples")
    files = [p for root in roots for p in (ROOT / root).rglob("*") if p.suffix in SUFFIXES]
    files += [ROOT / name for name in ("Makefile", "pyproject.toml")]
    stems = {part for p in files for part in p.relative_to(ROOT).with_suffix("").parts}
    return frozenset(stems.union(*(re.findall(r"\w+", p.read_text()) for p in files)))


# Pages on other systems name what is theirs.
@pytest.mark.parametrize(
    "path", [p for p in DOCUMENTS if p.parent.name != "coming-from"], ids=id_of
)
def test_named_identifiers_exist(path: Path, words: frozenset[str]) -> None:
    """Those that no English word looks like: with an underscore or an inner capital."""
    text = path.read_text()
    found = {w for q in quoted(text) for w in re.findall(r"\b[A-Za-z_]\w*", q)}
    special = {w for w in found if re.search(r"[a-z0-9]_[a-z0-9]|[a-z][A-Z]", w)}
    own = {w for block in blocks(path) for w in re.findall(r"\w+", block.code)}
    assert {w for w in special if w not in words} - FOREIGN - own == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=id_of)
def test_make_targets_exist(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {t for q in quoted(path.read_text()) for t in re.findall(r"\bmake ([a-z][\w-]*)", q)}
    assert {t for t in targets if not re.search(rf"^{t}:", makefile, re.MULTILINE)} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=id_of)
def test_documents_are_short(path: Path) -> None:
    most = MAX_LINES.get(path.name, 10_000)
    if path.parent.name == "internals":
        most = min(most, MAX_INTERNALS_LINES)
    assert len(path.read_text().splitlines()) <= most


def test_the_table_of_operations_has_every_kind() -> None:
    table = (ROOT / "docs" / "internals" / "ir.md").read_text().split("## Operations")[1]
    cells = re.findall(r"^\| ([A-Z_, ]+) \|", table, re.MULTILINE)
    assert {kind for cell in cells for kind in cell.split(", ")} == {k.name for k in OpKind}


def test_the_index_lists_every_decision() -> None:
    index = (DECISIONS / "README.md").read_text()
    listed: list[str] = []
    for path in sorted(DECISIONS.glob("[0-9]*.md")):
        found = re.findall(r"^##? (\d{3}) (.+)$", path.read_text(), re.MULTILINE)
        assert path.name.startswith(f"{found[0][0]}-")
        assert found == sorted(found)
        listed += [f"| [{number}]({path.name}) | {title} |" for number, title in found]
    assert sorted(listed) == re.findall(r"^\| \[\d.*$", index, re.MULTILINE)
