"""Mistakes at the edges of the interface get errors that say what to do."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportCallIssue=false

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import (
    KernelArgumentError,
    KernelAssertionError,
    KernelError,
    KernelMemoryError,
    KernelTypeError,
)


@kc.kernel
def doubled(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 2.0 * x[i]


def arrays() -> tuple[list[kc.Array], list[kc.Array]]:
    return [kc.zeros(4)], [kc.zeros(4)]


@kc.struct
class Holder:
    values: kc.indexedarray(dtype=float)


ANY: Any = kc
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "extent": (lambda: kc.zeros(2**63), "fits in memory, found shape"),
    "bytes": (lambda: kc.zeros(2**50), "4503599627370496 bytes"),
    "threads": (lambda: kc.set_num_threads(2**31), "from 1 to 1024, found 2147483648"),
    "threads_of_float": (lambda: ANY.set_num_threads(1.5), "from 1 to 1024, found 1.5"),
    "negative_dim": (
        lambda: kc.launch(doubled, -1, *arrays()),
        "found -1(.|\n)*number of threads along each dimension",
    ),
    "large_dim": (lambda: kc.launch(doubled, 2**63, *arrays()), "2\\*\\*31 - 1, found 92233"),
    "dest_offset": (lambda: ANY.copy(*arrays()[0], *arrays()[1], -1), "dest_offset: expected at"),
    "copy_size": (lambda: ANY.copy(*arrays()[0], *arrays()[1], 0, 9), "src: expected at least 9"),
    "dims": (lambda: ANY.launch(doubled, dims=4, inputs=[]), "mean 'dim'"),
    "input": (lambda: ANY.launch(doubled, 4, input=[], outputs=[]), "mean 'inputs'"),
    "output": (lambda: ANY.launch(doubled, 4, inputs=[], output=[]), "mean 'outputs'"),
    "devices": (lambda: ANY.launch(doubled, 4, devices="cpu"), "mean 'device'"),
    "zeros": (lambda: ANY.zeros(4, dtyp=float), r"zeros\(\): unknown argument 'dtyp'"),
    "array": (lambda: ANY.array([1.0], dtyp=float), r"array\(\): unknown argument 'dtyp'"),
    "launch_command": (lambda: ANY.Launch(doubled, dims=4), "mean 'dim'"),
    "no_grid": (lambda: kc.Launch(doubled, None, arrays()).launch(), "no grid(.|\n)*set_dim"),
    "no_arguments": (lambda: kc.Launch(doubled, 4).launch(), "no arguments(.|\n)*set_params"),
    "gradcheck": (lambda: ANY.gradcheck(doubled, 4, tolerance=1), "unknown argument 'tolerance'"),
    "jacobian": (lambda: ANY.jacobian(doubled, 4, pair=[]), "mean 'pairs'"),
    "retained": (lambda: kc.zeros(4, retain_grad=True), "requires_grad=True too"),
    "retained_array": (lambda: setattr(kc.zeros(4), "retain_grad", True), "requires_grad=True too"),
    "structs_of_any_rank": (lambda: ANY.zeros(4, dtype=Holder), "found .*Holder"),
    "kernel_of_ir": (lambda: ANY.Kernel(func=doubled.func), "found a Func(.|\n)*is its 'pyfunc'"),
    "map": (lambda: ANY.map(kc.sin, kc.zeros(4), outs=kc.zeros(4)), "mean 'out'"),
    "subclass": (lambda: _subclass(), "no class"),
}


def _subclass() -> type:
    base: Any = kc.array2d

    class A(base):
        pass

    return A


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(case: str) -> None:
    call, text = MISTAKES[case]
    with pytest.raises(KernelError, match=text):
        call()


def test_arrays_that_do_not_fit_are_memory_errors() -> None:
    for extents in (2**63, 2**50, (2**62, 4)):
        with pytest.raises(KernelMemoryError, match="make it smaller"):
            kc.zeros(extents)


def test_a_type_error_of_the_call_itself_is_not_hidden() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
        ANY.launch(doubled)


ONE = np.ones(4, np.float32)
MASKED: Any = np.ma.masked_array(ONE, mask=np.array([False, True, False, False]))
TAKERS: dict[str, Callable[[Any], Any]] = {
    "input": lambda m: kc.launch(doubled, 4, [m], [ONE.copy()]),
    "output": lambda m: kc.launch(doubled, 4, [ONE], [m]),
    "from_numpy": kc.from_numpy,
    "shared": lambda m: kc.from_numpy(m, copy=False),
    "array": kc.array,
    "shared_array": lambda m: kc.array(m, copy=False),
    "from_dlpack": kc.from_dlpack,
    "assign": lambda m: kc.zeros(4).assign(m),
    "map": lambda m: kc.map(kc.sin, m),
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS.keys())
def test_masked_arrays_are_refused(take: Callable[[Any], Any]) -> None:
    with pytest.raises(KernelArgumentError, match=r"masked array(.|\n)*filled"):
        take(MASKED)


class Leaving:
    """An array whose export ends the program."""

    def __init__(self, name: str, reason: type[BaseException]) -> None:
        self.name, self.reason = name, reason

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "name"):
            raise object.__getattribute__(self, "reason")("stop")
        return object.__getattribute__(self, name)


EXPORTS = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")


@pytest.mark.parametrize("reason", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", EXPORTS)
def test_exits_during_an_export_pass_through(name: str, reason: type[BaseException]) -> None:
    class Array(Leaving):
        pass

    for use in (lambda a: kc.launch(doubled, 4, [a], [ONE.copy()]), kc.from_dlpack):
        with pytest.raises(reason, match="stop"):
            use(Array(name, reason))


@pytest.mark.parametrize("reason", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", ["__dlpack__", "__array__"])
def test_exits_of_an_exporting_method_pass_through(name: str, reason: type[BaseException]) -> None:
    def leave(*args: Any, **kwargs: Any) -> None:
        raise reason("stop")

    array = type("Array", (), {name: leave})()
    for use in (lambda a: kc.launch(doubled, 4, [a], [ONE.copy()]), kc.from_dlpack, kc.array):
        with pytest.raises(reason, match="stop"):
            use(array)


SOURCE = """
import kernelcore as kc

@kc.kernel
def checked(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    assert x[i] < 5.0, {text!r}
    y[i] = 2.0 * x[i]
"""


def module_at(path: str, text: str) -> Any:
    Path(path).write_text(SOURCE.format(text=text), encoding="utf-8")
    spec = spec_from_file_location("odd_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        (b"file\xff.py", "large", r"file\udcff.py"),
        (b"surrogate.py", "la\ud800rge", r"la\ud800rge"),
        (b"nul.py", "la\0rge", r"la\x00rge"),
    ],
    ids=["file", "surrogate", "nul"],
)
def test_texts_that_are_no_utf8_are_shown_escaped(
    tmp_path: Path, name: bytes, text: str, shown: str
) -> None:
    module = module_at(os.path.join(tmp_path, os.fsdecode(name)), text)
    y = np.zeros(4, np.float32)
    kc.launch(module.checked, 4, [ONE], [y])
    assert (y == 2.0).all()
    with pytest.raises(KernelAssertionError) as caught:
        kc.launch(module.checked, 4, [9 * ONE], [y])
    assert shown in str(caught.value)


def test_keywords_of_cxx_are_refused_as_parameters() -> None:
    with pytest.raises(KernelTypeError, match="found 'template', a keyword of C\\+\\+"):

        @kc.func_native("return template;")
        def same(template: float) -> float: ...


def test_arrays_of_bools_have_ones() -> None:
    for made in (kc.ones(3, dtype=bool), kc.ones_like(kc.zeros(3, dtype=bool))):
        assert made.list() == [True] * 3
    assert kc.full(2, 1, dtype=bool).list() == [True] * 2
    with pytest.raises(KernelTypeError):
        kc.full(2, 2, dtype=bool)


@kc.struct
class Ball:
    radius: float
    place: kc.vec3


@kc.func
def ball(x: float):
    made = Ball()
    made.radius = x
    made.place = kc.vec3(x, 2.0 * x, 3.0 * x)
    return made


def test_map_gives_an_array_of_the_struct_that_a_function_returns() -> None:
    found = kc.map(ball, kc.array([1.0, 2.0], dtype=float))
    assert found.dtype is Ball
    assert found.fields["radius"].list() == [1.0, 2.0]
    np.testing.assert_array_equal(found.fields["place"].numpy()[1], [2.0, 4.0, 6.0])
