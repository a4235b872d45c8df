"""No circle among the imports of modules, those that functions defer included."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter

import pytest

from tests.project.test_layers import MODULES, PACKAGES, name_of, tree_of

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
