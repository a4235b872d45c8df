"""Kernels and functions show users what they are: to inspect, help, completion and notebooks."""

from __future__ import annotations

import inspect
import os
import pydoc
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.environment import ROOT


@kc.func
def doubled(x: float) -> float:
    """Twice ``x``."""
    return 2.0 * x


@kc.func
def either(x: float):
    return x


@kc.func
def either(x: kc.vec3, y: float):  # noqa: F811
    return x * y


@kc.kernel
def scale(x: kc.array[float], y: kc.array[float], k: float):
    """Scale <x>."""
    i = kc.tid()
    y[i] = k * doubled(x[i])


def test_inspect_shows_a_kernel() -> None:
    assert list(inspect.signature(scale).parameters) == ["x", "y", "k"]
    assert inspect.getsource(scale).startswith("@kc.kernel\ndef scale(x: kc.array[float]")
    assert scale.__wrapped__ is scale.pyfunc
    assert (scale.__name__, scale.__qualname__, scale.__module__) == ("scale", "scale", __name__)
    assert inspect.getdoc(scale) == "Scale <x>."
    parameters = ["func", "types", "flush_denormals", "key", "options"]
    assert list(inspect.signature(kc.Kernel).parameters) == parameters


def test_inspect_shows_a_function() -> None:
    assert list(inspect.signature(doubled).parameters) == ["x"]
    assert inspect.getsource(doubled).startswith("@kc.func\ndef doubled(x: float)")
    found = doubled.__name__, doubled.__qualname__, doubled.__module__
    assert found == ("doubled", "doubled", __name__)
    assert str(inspect.signature(either)) == "(*args, **kwargs)"
    assert "name" in inspect.signature(kc.Function).parameters


def test_inspect_shows_built_ins() -> None:
    assert str(inspect.signature(kc.sin)) == "(x: 'Float') -> 'Float'"
    assert str(inspect.signature(kc.dot)) == "(a, b)"
    assert (kc.sin.__name__, kc.sin.__qualname__) == ("sin", "sin")
    assert (kc.tid.__name__, kc.dot.__module__) == ("tid", "kernelcore.builtins.vector")
    assert repr(kc.tid) == "i = tid() or i, j = tid()"


def test_representations_are_short() -> None:
    assert repr(scale) == "<kernel scale>"
    assert repr(doubled) == "<function doubled>"
    assert repr(either) == "<function either, 2 overloads>"


@pytest.mark.parametrize("found", [scale, doubled])
def test_completion_offers_what_users_need(found: Any) -> None:
    offered = [name for name in dir(found) if not name.startswith("_")]
    assert offered
    assert all(hasattr(found, name) for name in dir(found))
    assert {"func", "executable", "note_launch", "add", "takes"} & set(offered) == set()


def test_help_of_launch_shows_its_parameters() -> None:
    text = pydoc.plain(pydoc.render_doc(kc.launch))
    assert "launch(kernel: 'Kernel | OfKernel', dim: 'Dims'" in text


def test_public_names_are_no_modules() -> None:
    names = [name for name in dir(kc) if not name.startswith("_")]
    assert {n for n in names if inspect.ismodule(getattr(kc, n))} == {"types"}
    assert not {"sys", "TYPE_CHECKING", "lazy", "base"} & set(names)


def test_all_hides_none_of_python_s_functions() -> None:
    namespace: dict[str, Any] = {}
    exec("from kernelcore import *", namespace)
    assert {"kernel", "launch", "vec3", "sin", "float32"} <= namespace.keys()
    assert not {"abs", "max", "map", "bool", "types", "torch_op"} & namespace.keys()
    assert isinstance(kc.__version__, str)


def launches_in(kernel: kc.Kernel) -> int:
    """The launches that its page counts."""
    found = re.search(r"launches\D*(\d+)", kernel._repr_html_())
    assert found is not None
    return int(found[1])


def test_notebooks_show_kernels() -> None:
    kernel = kc.Kernel(scale.pyfunc)
    html: str = kernel._repr_html_()
    assert "scale(x: array(float32, 1), y: array(float32, 1), k: float32)" in html
    assert "none yet" in html
    assert "Scale &lt;x&gt;." in html
    assert launches_in(kernel) == 0
    arrays = [np.ones(3, np.float32)], [np.zeros(3, np.float32), 2.0]
    kc.launch(kernel, 3, *arrays)
    assert "bytes for cpu" in kernel._repr_html_()
    for _ in range(4):
        kc.launch(kernel, 3, *arrays)
    command: Any = kc.launch(kernel, 3, *arrays, record_cmd=True)
    command.launch()
    assert launches_in(kernel) == 6


def test_notebooks_show_arrays() -> None:
    html: str = kc.array(np.arange(24.0).reshape(2, 12), dtype=float)._repr_html_()
    for text in ("float32", "(2, 12)", "cpu", "<td>13.</td>", "<td>…</td>"):
        assert text in html
    for array in (
        *(kc.zeros(shape) for shape in ((), (0,), (3,), (2, 3, 4))),
        kc.zeros((2, 2), dtype=kc.vec3),
    ):
        assert array._repr_html_().startswith("<div><b>array</b>")


def test_arrays_and_tapes_offer_what_users_need() -> None:
    x = kc.zeros(2, requires_grad=True)
    x.unit = "m"  # pyright: ignore[reportAttributeAccessIssue]
    tape = kc.Tape()
    for found in (x, tape):
        offered = [name for name in dir(found) if not name.startswith("_")]
        assert all(hasattr(found, name) for name in offered)
        assert all(getattr(type(found), name, found).__doc__ for name in offered)
    assert {"numpy", "grad", "reshape", "unit"} <= set(dir(x))
    assert not {"is_lent", "writer", "scalar_index"} & set(dir(x))
    assert not {"record_launch", "sink", "has_elements"} & set(dir(tape))


def test_short_texts_of_tapes_and_settings() -> None:
    x = kc.zeros(2, requires_grad=True)
    with kc.Tape() as tape:
        y = x + 1.0
    assert y.requires_grad
    assert repr(tape).startswith("<Tape of 1 records over ")
    assert repr(kc.config).startswith("<config block_dim=0, check_finite=False")


BUSY = """
import os, sys
import numpy as np
import kernelcore as kc

@kc.kernel
def spin(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    total = x[i]
    for k in range(200000):
        total = kc.sin(total) + float(k)
    y[i] = total

x = np.ones(512, np.float32)
kc.launch(spin, 512, [x], [np.zeros_like(x)])
kc.launch(spin, 512, [x], [np.zeros_like(x)])
path = f"/tmp/perf-{os.getpid()}.map"
text = open(path).read()
child = os.fork()
if child == 0:
    same = open(f"/tmp/perf-{os.getpid()}.map").read() == text
    os.remove(f"/tmp/perf-{os.getpid()}.map")
    os._exit(not same)
assert os.waitpid(child, 0)[1] == 0
print(text)
if "keep" not in sys.argv:
    os.remove(path)
"""


def busy_program(folder: Path) -> tuple[list[str], dict[str, str]]:
    """A program that is in one kernel most of its time, and its environment."""
    program = folder / "busy.py"
    program.write_text(BUSY)
    known = {"KC_PERF_MAP": "1", "KC_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    return [sys.executable, str(program)], {**os.environ, **known}


def test_perf_finds_the_names_of_kernels(tmp_path: Path) -> None:
    command, environment = busy_program(tmp_path)
    for _ in ("compiled", "from the disk cache"):
        lines = subprocess.check_output(command, env=environment, text=True).strip().splitlines()
        assert len(lines) == 1
        found = re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) spin \(busy\.py:7\)", lines[0])
        assert found
        assert int(found[1], 16) > 0
        assert int(found[2], 16) > 100
    quiet = {**environment, "KC_PERF_MAP": "0"}
    failed = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
    assert "FileNotFoundError" in failed.stderr


def test_perf_reports_kernels(tmp_path: Path) -> None:
    command, environment = busy_program(tmp_path)
    data = str(tmp_path / "perf.data")
    record = ["record", "-q", "-e", "cpu-clock", "-o", data, *command, "keep"]
    if not has_perf():
        return
    ran = subprocess.run(["perf", *record], env=environment, capture_output=True, check=True)
    assert b"spin" in ran.stdout
    report = ["perf", "report", "-i", data, "--stdio", "--sort", "symbol"]
    text = subprocess.check_output(report, text=True, stderr=subprocess.DEVNULL)
    found = re.search(r"([\d.]+)%.*spin \(busy\.py:7\)", text)
    assert found, text
    assert float(found[1]) > 20


def has_perf() -> bool:
    """Whether perf is installed, and the system lets it sample."""
    if not shutil.which("perf"):
        return False
    probe = ["perf", "record", "-q", "-e", "cpu-clock", "-o", os.devnull, "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0
