"""Kernels and functions of texts: ``kc.kernel(source=...)``."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.environment import ROOT

FACTOR = 3.0
TEXT = """
    def scale(x: kc.array[float], y: kc.array[float]):
        i = kc.tid()
        y[i] = FACTOR * x[i]
"""


def launched(kernel: kc.Kernel) -> list[float]:
    y = np.zeros(2, np.float32)
    kc.launch(kernel, 2, [np.ones(2, np.float32)], [y])
    return y.tolist()


def test_names_are_those_around_the_call() -> None:
    assert launched(kc.kernel(source=TEXT)) == [3.0, 3.0]
    FACTOR = 4.0  # noqa: F841
    assert launched(kc.kernel(source=TEXT)) == [4.0, 4.0]


def test_names_are_those_of_given_globals_as_they_are_at_the_launch() -> None:
    names: dict[str, Any] = {"kc": kc, "FACTOR": 5.0}
    kernel = kc.kernel(source=TEXT, globals=names)
    assert launched(kernel) == [5.0, 5.0]
    names["FACTOR"] = 6.0
    assert launched(kernel) == [6.0, 6.0]
    assert "scale" not in names


def test_functions_are_called_by_kernels_of_texts() -> None:
    FACTOR = kc.func(source="def twice(v: float):\n    return 2.0 * v")
    kernel = kc.kernel(source=TEXT.replace("FACTOR * x[i]", "FACTOR(x[i])"))
    assert FACTOR(4.0) == 8.0
    assert launched(kernel) == [2.0, 2.0]


def test_the_source_is_there_to_inspect() -> None:
    kernel = kc.kernel(source=TEXT)
    assert inspect.getsource(kernel).startswith("def scale(x: kc.array[float]")
    assert kernel.__name__ == "scale"
    assert "FACTOR * x[i]" in kernel.inspect("source")
    assert launched(pickle.loads(pickle.dumps(kernel))) == [3.0, 3.0]


def test_errors_point_into_the_text() -> None:
    kernel = kc.kernel(source=TEXT.replace("x[i]", "z[i]"))
    with pytest.raises(kc.KernelNameError, match="'z' is not defined") as caught:
        launched(kernel)
    lines = str(caught.value).splitlines()
    place = next(k for k, line in enumerate(lines) if "y[i] = FACTOR * z[i]" in line)
    assert "<kernel of text " in str(caught.value)
    assert "line 3" in lines[place - 1]
    assert lines[place + 1].index("^") == lines[place].index("z[i]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(:", "Python cannot parse the text"),
        ("", "expected one function"),
        ("x = 1", "expected one function"),
        ("def f(): pass\nx = 1", "expected one function"),
        ("@kc.kernel\ndef f(): pass", "without decorators"),
        ("async def f(): pass", "expected one function"),
    ],
)
def test_other_texts_are_refused(text: str, expected: str) -> None:
    with pytest.raises(kc.KernelSyntaxError, match=expected):
        kc.kernel(source=text)


def test_other_objects_are_refused() -> None:
    wrong: Any = 3
    with pytest.raises(kc.KernelTypeError, match=r"kernel\(source=\): expected a str, found 3"):
        kc.kernel(source=wrong)


def test_python_c_and_exec_make_kernels() -> None:
    program = f"""
import numpy as np, kernelcore as kc
FACTOR = 2.0
y = np.zeros(2, np.float32)
kc.launch(kc.kernel(source={TEXT!r}), 2, [np.ones(2, np.float32)], [y])
print(y.tolist())
exec("k = kc.kernel(source=text); kc.launch(k, 2, [y.copy()], [y])", dict(globals(), text={TEXT!r}))
print(y.tolist())
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines() == ["[2.0, 2.0]", "[4.0, 4.0]"], done.stderr
