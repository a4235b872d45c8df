"""A notebook in Jupyter: definition, redefinition, help, interrupt, progress, reports in HTML."""

from __future__ import annotations

import os
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers.environment import ROOT

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


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    """What every cell shows, by its name."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text.strip()) for text in CELLS.values()]
    client = NotebookClient(
        notebook,
        timeout=120,
        allow_errors=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(ROOT)}},
    )
    client.execute(env={**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"})
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
    assert "launch(kernel: 'Kernel', dim: 'Dims'" in text_of(outputs["help"])
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
