"""A module imports its own layer and the layers below; files stay small. Needs no compiler."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.helpers.environment import ROOT

MAX_LINES = 400

# What each package may import besides itself; the order is that of ARCHITECTURE.md.
MAY_IMPORT: dict[str, set[str]] = {"base": set[str]()}
MAY_IMPORT["language"] = {"base"}
MAY_IMPORT["ir"] = MAY_IMPORT["language"] | {"language"}
MAY_IMPORT["builtins"] = MAY_IMPORT["ir"] | {"ir"}
MAY_IMPORT["frontend"] = MAY_IMPORT["builtins"] | {"builtins"}
MAY_IMPORT["passes"] = MAY_IMPORT["frontend"] | {"frontend"}
MAY_IMPORT["codegen"] = MAY_IMPORT["passes"] | {"passes"}
MAY_IMPORT["compiler"] = MAY_IMPORT["codegen"] | {"codegen"}
MAY_IMPORT["runtime"] = {"base", "language"}
MAY_IMPORT["launch"] = MAY_IMPORT["compiler"] | {"compiler", "runtime"}
MAY_IMPORT["autograd"] = MAY_IMPORT["launch"] | {"launch"}
MAY_IMPORT["explain"] = MAY_IMPORT["launch"] | {"launch"}
MAY_IMPORT["operators"] = MAY_IMPORT["launch"] | {"launch"}
MAY_IMPORT["optim"] = MAY_IMPORT["launch"] | {"launch"}
# It is a user of kernelcore, and imports what users do.
MAY_IMPORT["compat"] = MAY_IMPORT["optim"] | {"optim", ""}
# Modules of kernelcore itself; what they import is deferred, or what the command line runs.
ROOT_MODULES = {"__init__", "__main__", "_exports", "_native"}
# What adapters may know of kernelcore.
ADAPTER_SURFACE = {"kernelcore", "kernelcore.operators", "kernelcore.base.errors"}
FRAMEWORKS = {"torch": "torch_ext", "jax": "jax_ffi", "paddle": "paddle_ext"}
PACKAGES = ("kernelcore", "torch_ext", "jax_ffi", "paddle_ext")
MODULES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
OTHERS = sorted(p for package in ("tests", "examples") for p in (ROOT / package).rglob("*.py"))
NATIVE = sorted(
    p
    for p in (ROOT / "csrc").rglob("*")
    if p.suffix in (".cc", ".h") and "third_party" not in p.parts
)
# What the folders of csrc may include besides themselves.
NATIVE_BELOW = {
    "include": set[str](),
    "core": {"kernelcore"},
    "cuda": {"kernelcore", "core"},
    "xla": {"kernelcore", "core", "cuda"},
    "torch": {"kernelcore", "core", "cuda"},
    "bind": {"kernelcore", "core", "cuda", "torch", "xla"},
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    """The package of kernelcore that ``module`` lies in; empty for kernelcore itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] not in ROOT_MODULES else ""


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            children = [f"{node.module}.{alias.name}" for alias in node.names]
            # ``from package import module`` imports the module.
            yield from (c if c in MODULE_NAMES else node.module for c in children)


MODULE_NAMES = {name_of(p) for p in MODULES} | {"kernelcore._native"}


def names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    name = name_of(path)
    mine = package_of(name)
    if name.split(".")[0] != "kernelcore" or not mine:
        return
    known = MAY_IMPORT[mine] | {mine}
    inner = [m for m in imports(path) if m.split(".")[0] == "kernelcore"]
    assert [m for m in inner if package_of(m) not in known and m != "kernelcore._native"] == []
    assert [m for m in imports(path) if m.split(".")[0] in FRAMEWORKS.values()] == []


def test_every_package_has_its_allowed_imports() -> None:
    for package in MAY_IMPORT:
        doc = ast.get_docstring(
            ast.parse((ROOT / "kernelcore" / package / "__init__.py").read_text())
        )
        assert doc is not None, package
        assert "May import: " in doc, package
    assert {p.name for p in (ROOT / "kernelcore").glob("*.py")} <= {f"{m}.py" for m in ROOT_MODULES}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_adapters_know_the_surface_only(path: Path) -> None:
    if path.relative_to(ROOT).parts[0] != "kernelcore":
        froms = {n.module for n in ast.walk(tree_of(path)) if isinstance(n, ast.ImportFrom)}
        plain = {
            a.name for n in ast.walk(tree_of(path)) if isinstance(n, ast.Import) for a in n.names
        }
        known = {m for m in froms | plain if m and m.split(".")[0] == "kernelcore"}
        assert known <= ADAPTER_SURFACE


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_frameworks_stay_in_their_adapter(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    roots = {m.split(".")[0] for m in imports(path)}
    assert {r for r in roots if FRAMEWORKS.get(r, package) != package} == set()
    adapters = set(FRAMEWORKS.values()) - {package}
    assert roots & adapters == set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_errors_are_specific(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"line {node.lineno}: bare except"
            assert not {"Exception", "BaseException"} & names_in(node.type), f"line {node.lineno}"
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert not {"RuntimeError", "Exception"} & names_in(node.exc), f"line {node.lineno}"


@pytest.mark.parametrize("path", MODULES + NATIVE + OTHERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_read_in_one_go(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", NATIVE, ids=lambda p: str(p.relative_to(ROOT)))
def test_native_includes_point_down(path: Path) -> None:
    directory = path.relative_to(ROOT / "csrc").parts[0]
    included = re.findall(r'#include "(\w+)/', path.read_text())
    assert set(included) <= NATIVE_BELOW[directory] | {directory, "kernelcore"}


# From Python 3.12 on, the extension is built for the stable interface, which lacks these.
UNSTABLE = r"\b(_?Py\w+_(GET|SET)_[A-Z]+|PyObject_Call\w*OneArg|PyUnicode_AsUTF8|PyFloat_AS_\w+)\("


@pytest.mark.parametrize("path", NATIVE, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_interface_of_python_is_the_stable_one(path: Path) -> None:
    assert re.findall(UNSTABLE, path.read_text()) == []


@pytest.mark.parametrize("path", NATIVE, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_stays_in_bind(path: Path) -> None:
    if path.relative_to(ROOT / "csrc").parts[0] != "bind":
        assert not re.search(r"#include <(Python\.h|nanobind)", path.read_text())


TREES = {name_of(path): tree_of(path) for path in MODULES}
# It defers the imports of all public names.
DEFERRED = {"kernelcore"}


class Imports(ast.NodeVisitor):
    """Collects what a module imports, except for type checkers only."""

    def __init__(self, tree: ast.Module) -> None:
        self.names: set[str] = set()
        self.visit(tree)

    def visit_If(self, node: ast.If) -> None:
        checked = "TYPE_CHECKING" in ast.unparse(node.test)
        for child in node.orelse if checked else node.body + node.orelse:
            self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        self.names |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        children = {f"{node.module}.{alias.name}" for alias in node.names}
        self.names |= {c if c in TREES else str(node.module) for c in children}


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_do_not_import_each_other_in_circles(package: str) -> None:
    mine = {m for m in TREES if m.split(".")[0] == package} - DEFERRED
    graph = {m: Imports(TREES[m]).names & mine - {m} for m in mine}
    TopologicalSorter(graph).prepare()
