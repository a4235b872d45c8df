"""Notebooks in Jupyter: definition, redefinition, help, reports, and those of the examples."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers.environment import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
# With one thread, torch does not wait for processors that other tests use.
ENVIRONMENT = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1", "OMP_NUM_THREADS": "1"}
# Cells by name, run in this order in one kernel of Jupyter.
CELLS = {
    "definition": """
import numpy as np
import kernelcore as kc

@kc.func
def f(x: float):
    return 2.0 * x

@kc.kernel
def apply(x: kc.array[float], y: kc.array[float]):
    '''Apply ``f`` to every element.'''
    i = kc.tid()
    y[i] = f(x[i])

x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
kc.launch(apply, 3, [x], [y])
print(y)
""",
    "redefinition": """
@kc.func
def f(x: float):
    return 5.0 * x

kc.launch(apply, 3, [x], [y])
print(y)
""",
    "error": """
@kc.kernel
def wrong(x: kc.array[float]):
    x[kc.tid()] = missing

kc.launch(wrong, 3, [x])
""",
    "help": "help(kc.launch)",
    "source": "import inspect; print(inspect.getsource(apply), inspect.signature(apply))",
    "interrupt": """
import os, signal, threading

@kc.kernel
def endless(x: kc.array[float]):
    i = kc.tid()
    while x[i] > 0.0:
        x[i] += 1.0

timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
kc.launch(endless, 1, [np.ones(1, np.float32)])
""",
    "progress": "kc.compile_all([apply], progress=True)",
    "kernel": "apply",
    "array": "kc.array(np.eye(2), dtype=float)",
    "explanation": "kc.explain(apply)",
}


def run(notebook: Any, allow_errors: bool = False) -> None:
    """Fill the outputs of the cells of ``notebook``."""
    client = NotebookClient(
        notebook,
        timeout=120,
        allow_errors=allow_errors,
        kernel_name="python3",
        resources={"metadata": {"path": str(ROOT)}},
    )
    client.execute(env=ENVIRONMENT)


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    """What every cell shows, by its name."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text.strip()) for text in CELLS.values()]
    run(notebook, allow_errors=True)
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def text_of(outputs: list[Any]) -> str:
    return "".join(o.get("text", "") for o in outputs)


def html_of(outputs: list[Any]) -> str:
    return "".join(o.get("data", {}).get("text/html", "") for o in outputs)


def test_no_other_cell_fails(outputs: dict[str, list[Any]]) -> None:
    failed = {n: o for n, found in outputs.items() for o in found if o.output_type == "error"}
    assert failed.keys() == {"error", "interrupt"}, failed


def test_a_kernel_follows_its_redefined_function(outputs: dict[str, list[Any]]) -> None:
    assert text_of(outputs["definition"]) == "[2. 2. 2.]\n"
    assert text_of(outputs["redefinition"]) == "[5. 5. 5.]\n"


def test_an_error_points_into_its_cell(outputs: dict[str, list[Any]]) -> None:
    (error,) = outputs["error"]
    assert error.ename == "KernelNameError"
    assert "x[kc.tid()] = missing" in error.evalue


def test_help_and_inspect_show_signatures(outputs: dict[str, list[Any]]) -> None:
    assert "launch(kernel: 'Kernel | OfKernel', dim: 'Dims'" in text_of(outputs["help"])
    assert "def apply(x: kc.array[float]" in text_of(outputs["source"])


def test_an_interrupt_ends_a_launch(outputs: dict[str, list[Any]]) -> None:
    (error,) = outputs["interrupt"]
    assert error.ename == "KeyboardInterrupt"


def test_compilation_shows_its_progress(outputs: dict[str, list[Any]]) -> None:
    shown = text_of(outputs["progress"])
    assert "1/1" in shown


def test_reports_are_html(outputs: dict[str, list[Any]]) -> None:
    assert "apply(x: array(float32, 1)" in html_of(outputs["kernel"])
    assert "<td>1.</td><td>0.</td>" in html_of(outputs["array"])
    assert "<iframe" in html_of(outputs["explanation"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_of_the_examples_run(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    # A notebook is committed as it is before it runs.
    assert [cell for cell in code if cell.outputs or cell.execution_count] == []
    run(notebook)
    assert any("image/png" in o.get("data", {}) for cell in code for o in cell.outputs)
    assert "".join(text_of(cell.outputs) for cell in code)


def test_the_page_links_every_notebook() -> None:
    page = (ROOT / "docs" / "notebooks.md").read_text()
    assert len(NOTEBOOKS) == 3
    assert [p.name for p in NOTEBOOKS if f"(../examples/notebooks/{p.name})" not in page] == []
