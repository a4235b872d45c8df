"""Launches follow attributes, names that ``static`` reads, and those of functions in kernels."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from tests.launch.test_changed_names import KERNEL, Session

CONTAINERS = {
    "module": "import types\nc = types.ModuleType('c')\n",
    "object": "class C:\n    A = 1.0\nc = C()\n",
    "slots": "class C:\n    __slots__ = ('A',)\nc = C()\n",
    "class": "class B:\n    A = 1.0\nclass c(B):\n    pass\n",
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("text", ["x[i] * kc.static(c.A)", "x[i] * kc.static(max(c.A, 0.0))"])
def test_attributes_that_static_reads(container: str, text: str) -> None:
    s = Session(CONTAINERS[container] + "c.A = 2.0\n")
    s.run(KERNEL.format(text))
    assert s.value() == 2
    s.run("c.A = 3.0\n")
    assert s.value() == 3
    s.run(CONTAINERS[container] + "c.A = 4.0\n")
    assert s.value() == 4


def test_an_attribute_of_a_base_and_one_that_hides_it() -> None:
    s = Session("class B:\n    A = 2.0\nclass C(B):\n    pass\nc = C()\n")
    s.run(KERNEL.format("x[i] * kc.static(c.A) + C.A"))
    assert s.value() == 4
    s.run("B.A = 3.0")
    assert s.value() == 6
    s.run("c.A = 5.0")
    assert s.value() == 8


def test_methods_that_static_calls_compile_once() -> None:
    s = Session("class C:\n    @staticmethod\n    def two():\n        return 2.0\n")
    s.run(KERNEL.format("x[i] * kc.static(C.two())"))
    assert s.value() == 2
    assert s.value() == 2
    assert len(s["k"].versions) == 1


def test_a_name_for_another_module() -> None:
    s = Session(
        "import types\na, b = types.ModuleType('a'), types.ModuleType('b')\n"
        "a.A, b.A = 2.0, 3.0\nc = a\n"
    )
    s.run(KERNEL.format("x[i] * c.A"))
    assert s.value() == 2
    s.run("c = b")
    assert s.value() == 3


def test_functions_inside_of_kernels() -> None:
    s = Session("A = 2.0\n")
    s.run(
        "@kc.kernel\n"
        "def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):\n"
        "    def inner(v: float):\n"
        "        return v * A\n"
        "    i = kc.tid()\n"
        "    y[i] = inner(x[i])\n"
    )
    assert s.value() == 2
    s.run("A = 3.0")
    assert s.value() == 3


def test_an_equal_number_of_numpy_is_no_other_version() -> None:
    s = Session("A = np.float32(2.0)\n" + KERNEL.format("x[i] * A"))
    assert s.value() == 2
    s.run("A = np.float32(2.0)")
    assert s.value() == 2
    assert len(s["k"].versions) == 1
    s.run("A = np.float32(-0.0)")
    assert s.value() == 0
    assert len(s["k"].versions) == 2


def test_a_name_that_changes_while_the_kernel_is_read_has_one_meaning() -> None:
    s = Session("A = 2.0\ndef change():\n    global A\n    A += 1.0\n    return 0.0\n")
    s.run(KERNEL.format("x[i] * A + kc.static(change()) + A"))
    out = np.zeros(1, np.float32)
    kc.launch(s["k"], 1, [np.ones(1, np.float32)], [out])
    assert out[0] == 4


def test_names_of_kernelcore_itself_are_not_compared() -> None:
    s = Session(KERNEL.format("x[i] + kc.quat_identity().w + kc.erfinv(0.0)"))
    assert s.value() == 2
    assert not s["k"]._names
