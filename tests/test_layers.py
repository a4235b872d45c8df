"""A module imports its own layer and the layers below; files stay small. Needs no compiler."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_LINES = 400

# Lowest first. A row is one layer; its entries are modules or packages.
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        *("kernelcore.errors", "kernelcore.types", "kernelcore._native", "kernelcore.runtime"),
        *("kernelcore.cache", "kernelcore.settings", "kernelcore.lazy", "kernelcore.sources"),
    ),
    ("kernelcore.recording", "kernelcore.device"),
    ("kernelcore.stream", "kernelcore.timing"),
    ("kernelcore.device_memory", "kernelcore.device_step", "kernelcore.place"),
    ("kernelcore.tracking",),
    ("kernelcore.components", "kernelcore.products"),
    ("kernelcore.composite", "kernelcore.values", "kernelcore.memory"),
    ("kernelcore.element", "kernelcore.indexing"),
    ("kernelcore.element_memory",),
    ("kernelcore.data",),
    ("kernelcore.creation",),
    ("kernelcore.array",),
    ("kernelcore.structs", "kernelcore.function", "kernelcore.choice"),
    ("kernelcore.leaves",),
    ("kernelcore.ir",),
    ("kernelcore.builtins",),
    ("kernelcore.public",),
    ("kernelcore.frontend",),
    ("kernelcore.passes", "kernelcore.reference_docs"),
    ("kernelcore.codegen", "kernelcore.interp"),
    ("kernelcore.compile",),
    ("kernelcore.device_code",),
    ("kernelcore.signature", "kernelcore.inspection"),
    ("kernelcore.generic", "kernelcore.recall"),
    ("kernelcore.compiled", "kernelcore.export"),
    ("kernelcore.kernel",),
    (
        *("kernelcore.execute", "kernelcore.opspec", "kernelcore.compile_all"),
        "kernelcore.element_kernels",
    ),
    ("kernelcore.command", "kernelcore.graph", "kernelcore.device_elements"),
    ("kernelcore.launch_adjoint",),
    ("kernelcore.launch", "kernelcore.tape_record", "kernelcore.tape_plan"),
    ("kernelcore.tape_launch", "kernelcore.tape_graph"),
    ("kernelcore.tape_cut", "kernelcore.tape_records"),
    ("kernelcore.tape_memory",),
    ("kernelcore.tape",),
    ("kernelcore.map", "kernelcore.autodiff"),
    ("kernelcore.opderive", "kernelcore.opdevice", "kernelcore.opshape"),
    (
        *("kernelcore.program", "kernelcore.recorded", "kernelcore.program_fill"),
        *("kernelcore.program_interface", "kernelcore.opselect"),
    ),
    ("kernelcore.program_record",),
    ("kernelcore.programs",),
    ("kernelcore", "kernelcore.benchmark", "kernelcore.benchmark_kernels", "kernelcore.__main__"),
    ("torch_ext", "jax_ffi", "paddle_ext"),
)
# What adapters may know of kernelcore.
ADAPTER_SURFACE = {
    "kernelcore",
    "kernelcore._native",
    "kernelcore.codegen.abi",
    "kernelcore.codegen.toolchain",
    "kernelcore.compile",
    "kernelcore.components",
    "kernelcore.composite",
    "kernelcore.data",
    "kernelcore.device",
    "kernelcore.device_code",
    "kernelcore.element",
    "kernelcore.errors",
    "kernelcore.kernel",
    "kernelcore.opderive",
    "kernelcore.opdevice",
    "kernelcore.opselect",
    "kernelcore.opshape",
    "kernelcore.opspec",
    "kernelcore.passes.elementwise",
    "kernelcore.program",
    "kernelcore.program_interface",
    "kernelcore.programs",
    "kernelcore.runtime.native",
    "kernelcore.signature",
    "kernelcore.stream",
    "kernelcore.types",
}
FRAMEWORKS = {"torch": "torch_ext", "jax": "jax_ffi", "paddle": "paddle_ext"}
PACKAGES = ("kernelcore", "torch_ext", "jax_ffi", "paddle_ext")
MODULES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
OTHERS = sorted(p for package in ("tests", "examples") for p in (ROOT / package).rglob("*.py"))
NATIVE = sorted(
    p
    for p in (ROOT / "csrc").rglob("*")
    if p.suffix in (".cc", ".h") and "third_party" not in p.parts
)
# What the directories of csrc may include besides themselves; xla is third-party.
NATIVE_BELOW = {
    "include": set[str](),
    "core": {"kernelcore"},
    "cuda": {"kernelcore", "core"},
    "ffi": {"kernelcore", "core", "cuda", "xla"},
    "torch": {"kernelcore", "core", "cuda"},
    "bind": {"kernelcore", "core", "cuda", "torch"},
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> int:
    """The layer of the longest entry that ``module`` lies in; -1 for foreign modules."""
    found = [
        (len(entry), index)
        for index, row in enumerate(LAYERS)
        for entry in row
        if module == entry or module.startswith(entry + ".")
    ]
    return max(found)[1] if found else -1


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
    mine = layer(name_of(path))
    assert mine >= 0, f"{path} has no layer"
    assert [m for m in imports(path) if layer(m) > mine] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_adapters_know_the_surface_only(path: Path) -> None:
    if path.relative_to(ROOT).parts[0] != "kernelcore":
        known = {m for m in imports(path) if m.split(".")[0] == "kernelcore"}
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
