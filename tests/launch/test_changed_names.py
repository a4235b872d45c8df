"""Launches follow the names around a kernel, as Python functions do."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportOptionalMemberAccess=false

from __future__ import annotations

import copy
import gc
import linecache
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.launch.kernel import Kernel

HEAD = "import kernelcore as kc\nimport numpy as np\nfrom typing import Any\n"
_CELLS = iter(range(1_000_000))


class Session:
    """Cells that share their names, as those of a notebook."""

    def __init__(self, text: str = "") -> None:
        self.names: dict[str, Any] = {"__name__": "session"}
        self.run(HEAD + text)

    def run(self, text: str) -> None:
        file = f"<changed names {next(_CELLS)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), self.names)

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    def value(self, kernel: str = "k", x: float = 1.0) -> float:
        """What ``kernel`` makes of ``x``, twice, since the second launch takes another way."""
        found: list[float] = []
        for _ in range(2):
            out = np.zeros(1, np.float32)
            kc.launch(self[kernel], 1, [np.full(1, x, np.float32)], [out])
            found.append(float(out[0]))
        assert found[0] == found[1]
        return found[0]


KERNEL = """
@kc.kernel
def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = {}
"""


def test_a_changed_number() -> None:
    s = Session("SCALE = 2.0\n" + KERNEL.format("SCALE * x[i]"))
    assert s.value() == 2
    for number in (3.0, 5, np.float32(7.0), 2.0, 3.0):
        s.names["SCALE"] = number
        assert s.value() == number


@pytest.mark.parametrize(
    ("first", "second", "text", "values"),
    [
        ("V = kc.vec3(1.0, 2.0, 3.0)", "V = kc.vec3(4.0, 5.0, 6.0)", "V[1] * x[i]", (2, 5)),
        ("T = (1.0, 2.0)", "T = (1.0, 9.0)", "T[1] * x[i]", (2, 9)),
        ("F = True", "F = False", "(1.0 if F else 4.0) * x[i]", (1, 4)),
        ("N = 3", "N = 4", "x[i] * kc.float32(kc.static(2 * N))", (6, 8)),
    ],
)
def test_other_constants(first: str, second: str, text: str, values: tuple[float, float]) -> None:
    s = Session(f"{first}\n{KERNEL.format(text)}")
    assert s.value() == values[0]
    s.run(second)
    assert s.value() == values[1]
    s.run(first)
    assert s.value() == values[0]


def test_a_redefined_function() -> None:
    s = Session("@kc.func\ndef g(a: float):\n    return a + 1.0\n" + KERNEL.format("g(x[i])"))
    assert s.value() == 2
    s.run("@kc.func\ndef g(a: float):\n    return a + 10.0\n")
    assert (s.value(), s["g"](1.0)) == (11, 11)


def test_a_function_that_a_function_calls_and_its_constants() -> None:
    s = Session(
        "C = 1.0\n@kc.func\ndef h(a: float):\n    return a + C\n"
        "@kc.func\ndef g(a: float):\n    return 2.0 * h(a)\n" + KERNEL.format("g(x[i])")
    )
    assert s.value() == 4
    s.names["C"] = 2.0
    assert s.value() == 6
    s.run("@kc.func\ndef h(a: float):\n    return a - C\n")
    assert s.value() == -2


def test_a_name_for_the_old_function_keeps_it() -> None:
    s = Session("@kc.func\ndef g(a: float):\n    return a + 1.0\n")
    s.run("old = g\n" + KERNEL.format("old(x[i])"))
    s.run("@kc.func\ndef g(a: float):\n    return a + 10.0\n")
    assert s.value() == 2
    assert (s["old"](1.0), s["g"](1.0)) == (2, 11)


def test_definitions_in_a_loop_are_different_functions() -> None:
    s = Session(
        "fs = []\nfor n in (1.0, 2.0):\n    @kc.func\n    def f(a: float, b: float = n):\n"
        "        return a + b\n    fs.append(f)\nf0, f1 = fs\n"
    )
    assert s["f0"] is not s["f1"]
    s.run(KERNEL.format("10.0 * f0(x[i]) + f1(x[i])"))
    assert s.value() == 23
    assert (s["f0"](1.0), s["f1"](1.0)) == (2, 3)


def test_an_overload_that_comes_later() -> None:
    s = Session("@kc.func\ndef g(a: float):\n    return a + 1.0\n" + KERNEL.format("g(x[i])"))
    s.run("early = g\n")
    assert s.value() == 2
    text = (
        "@kc.func\ndef g(a: float):\n    return a + 2.0\n\n"
        "@kc.func\ndef g(a: int):\n    return a + 3\n"
    )
    s.run(text)
    assert s.value() == 3
    assert (s["g"](1), s["g"](1.0), s["early"](1.0)) == (4, 3, 2)


def test_a_variable_of_the_function_around() -> None:
    def make() -> tuple[Kernel, Callable[[float], None]]:
        scale = 2.0

        @kc.kernel
        def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):
            i = kc.tid()
            y[i] = scale * x[i]

        def change(value: float) -> None:
            nonlocal scale
            scale = value

        return k, change

    kernel, change = make()
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    for value in (2.0, 3.0, 2.0):
        change(value)
        kc.launch(kernel, 3, [x], [y])
        kc.launch(kernel, 3, [x], [y])
        assert y.tolist() == [value] * 3


def test_attributes_of_modules_namespaces_and_classes() -> None:
    s = Session()
    s.names["settings"] = types.ModuleType("settings")
    s["settings"].scale = 2.0
    s.names["space"] = types.SimpleNamespace(shift=1.0)
    s.run("class Options:\n    power = 3.0\n")
    s.run(KERNEL.format("settings.scale * x[i] + space.shift + Options.power"))
    assert s.value() == 6
    s["settings"].scale = 4.0
    assert s.value() == 8
    s["space"].shift = 0.0
    assert s.value() == 7
    s["Options"].power = 0.5
    assert s.value() == 4.5


def test_a_name_that_is_deleted_and_comes_back() -> None:
    s = Session("SCALE = 2.0\n" + KERNEL.format("SCALE * x[i]"))
    assert s.value() == 2
    del s.names["SCALE"]
    for _ in range(2):
        with pytest.raises(kc.KernelError, match="name 'SCALE' is not defined"):
            s.value()
    s.names["SCALE"] = 2.0
    assert s.value() == 2
    s.names["SCALE"] = 4.0
    assert s.value() == 4


def test_a_wrong_value_is_refused_and_the_right_one_runs_again() -> None:
    s = Session("SCALE = 2.0\n" + KERNEL.format("SCALE * x[i]"))
    assert s.value() == 2
    s.names["SCALE"] = {"not": "a number"}
    with pytest.raises(kc.KernelError, match="SCALE"):
        s.value()
    s.names["SCALE"] = 2.0
    assert s.value() == 2


def test_an_equal_number_is_no_other_version() -> None:
    s = Session("SCALE = 2.5\n" + KERNEL.format("SCALE * x[i]"))
    assert s.value() == 2.5
    version = s["k"].current()
    s.names["SCALE"] = float("2.5")
    assert s["k"].current() is version
    assert s.value() == 2.5
    s.names["SCALE"] = 2
    assert s["k"].current() is not version
    for zero in (0.0, -0.0):
        s.names["SCALE"] = zero
        assert np.signbit(s.value()) == np.signbit(zero)


def test_values_that_were_met_before_are_not_compiled_again(monkeypatch: Any) -> None:
    s = Session("SCALE = 1.0\n" + KERNEL.format("SCALE * x[i]"))
    for value in (1.0, 2.0, 3.0):
        s.names["SCALE"] = value
        s.value()
    count = len(s["k"].versions)
    from kernelcore.launch import kernel as module

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(module.executable, "Executable", refuse)
    for value in (1.0, 2.0, 3.0, 2.0, 1.0):
        s.names["SCALE"] = value
        assert s.value() == value
    assert len(s["k"].versions) == count == 3


def test_few_versions_are_kept() -> None:
    s = Session("N = 0\n" + KERNEL.format("x[i] + kc.float32(N)"))
    for n in range(40):
        s.names["N"] = n
        assert s.value() == n + 1
    assert len(s["k"].versions) <= 16


def test_generic_kernels_and_overloads() -> None:
    s = Session(
        "SCALE = 2\n@kc.kernel\ndef k(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):\n"
        "    i = kc.tid()\n    y[i] = x[i] * SCALE\n"
    )
    for scale in (2, 3, 2):
        s.names["SCALE"] = scale
        for dtype in (np.float32, np.int32):
            x, y = np.ones(2, dtype), np.zeros(2, dtype)
            kc.launch(s["k"], 2, [x], [y])
            assert y.tolist() == [scale] * 2


def test_adjoints_and_tapes() -> None:
    s = Session("SCALE = 2.0\n" + KERNEL.format("SCALE * x[i]"))
    x = kc.array(np.ones(2, np.float32), requires_grad=True)
    for scale in (2.0, 3.0, 2.0):
        s.names["SCALE"] = scale
        y = kc.zeros(2, requires_grad=True)
        x.grad.zero_()
        with kc.Tape() as tape:
            kc.launch(s["k"], 2, [x], [y])
        # What was recorded keeps what it was recorded with.
        s.names["SCALE"] = 100.0
        tape.backward(grads={y: kc.ones(2)})
        assert y.numpy().tolist() == [scale] * 2
        assert x.grad.numpy().tolist() == [scale] * 2
    s.names["SCALE"] = 5.0
    ct_x = np.zeros(2, np.float32)
    a, b = np.ones(2, np.float32), np.zeros(2, np.float32)
    kc.launch(s["k"], 2, [a], [b], [ct_x], [np.ones(2, np.float32)], adjoint=True)
    assert ct_x.tolist() == [5, 5]


def test_recorded_launches_keep_the_values_of_their_first_run() -> None:
    s = Session("SCALE = 2.0\n" + KERNEL.format("SCALE * x[i]"))
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    command = kc.launch(s["k"], 2, [x], [y], record_cmd=True)
    assert command is not None
    for scale in (2.0, 3.0):
        s.names["SCALE"] = scale
        command.launch()
        assert y.tolist() == [2, 2]
    kc.Launch(s["k"], 2, [x, y]).launch()
    assert y.tolist() == [3, 3]


DOUBLE = """
@kc.func
def double(v: float) -> float:
    return v + v
"""
RULE = """
@kc.func_grad(double)
def adj_double(v: float, adj_ret: float):
    kc.adjoint[v] += {} * adj_ret
"""


def test_rules_that_are_given_or_changed_later() -> None:
    s = Session(DOUBLE + KERNEL.format("double(x[i])"))

    def gradient() -> list[float]:
        x = kc.array([3.0], dtype=float, requires_grad=True)
        y = kc.zeros(1, requires_grad=True)
        with kc.Tape() as tape:
            kc.launch(s["k"], 1, [x], [y])
        tape.backward(grads={y: kc.ones(1)})
        assert x.grad is not None
        return x.grad.numpy().tolist()

    assert gradient() == [2]
    for factor in (100, 200):
        s.run(RULE.format(factor))
        assert gradient() == [factor]


def test_inspect_and_explain_follow() -> None:
    s = Session("SCALE = 2.5\n" + KERNEL.format("SCALE * x[i]"))
    s.value()
    s.names["SCALE"] = 7.25
    assert "7.25" in s["k"].inspect("ir")
    assert "2.5" not in s["k"].inspect("ir")


def test_copies_of_kernels_follow() -> None:
    s = Session("SCALE = 2.0\n" + KERNEL.format("SCALE * x[i]"))
    s.names["k"] = copy.deepcopy(s["k"])
    assert s.value() == 2
    s.names["SCALE"] = 3.0
    assert s.value() == 3


def test_threads_that_launch_while_a_name_changes() -> None:
    s = Session("SCALE = 1.0\n" + KERNEL.format("SCALE * x[i]"))
    s.value()
    found: list[set[float]] = []

    def work() -> None:
        seen = set[float]()
        for _ in range(300):
            out = np.zeros(1, np.float32)
            kc.launch(s["k"], 1, [np.ones(1, np.float32)], [out])
            seen.add(float(out[0]))
        found.append(seen)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(60):
        s.names["SCALE"] = float(k % 3)
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert all(seen <= {0.0, 1.0, 2.0} for seen in found)


def test_kernels_that_hold_names_are_collected() -> None:
    def make() -> weakref.ref[Kernel]:
        scale = 2.0
        own: list[Any] = []

        @kc.kernel
        def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):
            i = kc.tid()
            y[i] = scale * x[i]

        own.append(k)
        x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
        kc.launch(k, 1, [x], [y])
        return weakref.ref(k)

    kernel = make()
    gc.collect()
    assert kernel() is None
