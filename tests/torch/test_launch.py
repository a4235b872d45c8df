"""Launches over tensors of torch's own types, which are read natively, and of others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import kernelcore as kc
from kernelcore.launch import recorded_launch

Make = Callable[[], torch.Tensor]


class Subclass(torch.Tensor):
    """As ``torch.Tensor``, but with a class of its own: native code asks Python about it."""


@kc.kernel
def increase(x: kc.array(dtype=float, ndim=2), y: kc.array(dtype=float, ndim=2)):
    i, j = kc.tid()
    y[i, j] = x[i, j] + 1.0


def numbers() -> torch.Tensor:
    return torch.arange(1.0, 7.0).reshape(2, 3)


def in_inference_mode() -> torch.Tensor:
    with torch.inference_mode():
        return numbers()


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(2, 3)


def batched() -> torch.Tensor:
    kept: list[torch.Tensor] = []
    torch.func.vmap(lambda x: kept.append(x) or x)(torch.ones(4, 2, 3))
    return kept[0]


def private(name: str, *args: Any) -> Any:
    return getattr(torch, name)(*args)


READABLE: dict[str, Make] = {
    "packed": numbers,
    "transposed": lambda: torch.arange(6.0).reshape(3, 2).T,
    "with an offset": lambda: torch.arange(40.0).reshape(5, 8)[1::2, 2:8:2],
    "expanded": lambda: torch.arange(3.0).expand(2, 3),
    "empty": lambda: torch.ones(0, 3),
    "requiring a gradient": lambda: numbers().requires_grad_(),
    "not a leaf": lambda: numbers().requires_grad_() * 2.0,
    "a parameter": lambda: torch.nn.Parameter(numbers()),
    "of inference mode": in_inference_mode,
    "cloned lazily": lambda: private("_lazy_clone", numbers()),
    "complex, seen as real": lambda: torch.view_as_real(numbers()[0].to(torch.complex64)).T,
}
REFUSED: dict[str, Make] = {
    "negated": lambda: private("_neg_view", numbers()),
    "negated in one element": lambda: private("_neg_view", torch.ones(1, 1)),
    "conjugated": lambda: numbers().to(torch.complex64).conj().imag,
    "complex": lambda: numbers().to(torch.complex64),
    "of another dtype": lambda: numbers().double(),
    "of another rank": lambda: numbers()[0],
    "without dimensions": lambda: torch.tensor(1.0),
    "sparse": lambda: numbers().to_sparse(),
    "compressed": lambda: numbers().to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "on the meta device": lambda: numbers().to("meta"),
    "functional": lambda: private("_to_functional_tensor", numbers()),
    "quantised": lambda: torch.quantize_per_tensor(numbers(), 0.1, 0, torch.quint8),
    "fake": fake,
    "batched": batched,
}


def refusal(x: torch.Tensor, y: torch.Tensor) -> str:
    with pytest.raises((kc.KernelArgumentError, kc.KernelTypeError)) as raised:
        kc.launch(increase, (2, 3), [x], [y])
    return str(raised.value)


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("type_", [torch.Tensor, Subclass])
def test_elements_are_those_that_torch_shows(name: str, type_: type[torch.Tensor]) -> None:
    x = READABLE[name]()
    y = torch.zeros(3, 2).T[: len(x)]
    x = x if type_ is torch.Tensor else x.as_subclass(type_)
    kc.launch(increase, tuple(x.shape), [x], [y])
    torch.testing.assert_close(y, (x.detach() + 1.0).as_subclass(torch.Tensor))


@pytest.mark.filterwarnings("ignore:.*(beta|prototype|deprecated)")
@pytest.mark.parametrize("name", REFUSED)
def test_arrays_without_such_elements_are_refused(name: str) -> None:
    y = torch.zeros(2, 3)
    assert "increase(): argument 'x'" in refusal(REFUSED[name](), y)
    assert "increase(): argument 'y'" in refusal(numbers(), REFUSED[name]())
    assert not y.any()
    assert y._version == 0


@pytest.mark.parametrize("name", ["negated", "conjugated", "of another rank"])
def test_subclasses_are_refused_alike(name: str) -> None:
    x, y = REFUSED[name](), torch.zeros(2, 3)
    other = refusal(x.as_subclass(Subclass), y)
    assert other.replace("Subclass", "Tensor") == refusal(x, y)


@pytest.mark.parametrize("type_", [torch.Tensor, Subclass])
def test_a_write_is_counted_once(type_: type[torch.Tensor]) -> None:
    x, y = numbers(), torch.zeros(4, 3).as_subclass(type_)
    part = y[1:3]
    kc.launch(increase, (2, 3), [x], [part])
    assert (x._version, part._version, y._version) == (0, 1, 1)
    kc.launch(increase, (2, 3), [part], [part])
    assert part._version == 2


def test_autograd_refuses_overwritten_tensors() -> None:
    x, y = numbers().requires_grad_(), torch.zeros(2, 3)
    product = (x * y).sum()
    kc.launch(increase, (2, 3), [x], [y])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@kc.kernel
def checked(x: kc.array(dtype=float)):
    i = kc.tid()
    x[i] = 2.0 * x[i]
    assert x[i] < 4.0, "large"


@pytest.mark.parametrize("is_captured", [False, True])
def test_writes_of_a_failed_launch_are_counted(is_captured: bool) -> None:
    tensor, array = torch.arange(3.0), kc.array([0.0, 1.0, 2.0], dtype=float)
    for x in (tensor, array):
        run = partial(kc.launch, checked, 3, [x])
        if is_captured:
            with kc.ScopedCapture() as capture:
                run()
            run = partial(kc.capture_launch, capture.graph)
        before = tensor._version, array.version
        with pytest.raises(kc.KernelAssertionError, match="large"):
            run()
        assert (tensor._version, array.version) == (
            before[0] + (x is tensor),
            before[1] + (x is array),
        )
        assert np.asarray(x).tolist() == [0, 2, 4]


def test_tensors_of_inference_mode_are_written() -> None:
    y = in_inference_mode()
    kc.launch(increase, (2, 3), [numbers()], [y])
    torch.testing.assert_close(y, numbers() + 1.0)
    with torch.inference_mode():
        kc.launch(increase, (2, 3), [y], [y])
    torch.testing.assert_close(y, numbers() + 2.0)


def test_a_lazy_clone_has_memory_of_its_own() -> None:
    x = numbers()
    clone = private("_lazy_clone", x)
    kc.launch(increase, (2, 3), [x], [clone])
    torch.testing.assert_close(x, numbers())
    torch.testing.assert_close(clone, numbers() + 1.0)


def test_each_launch_reads_a_tensor_anew() -> None:
    x, y, other = numbers(), torch.zeros(2, 3), torch.full((3, 2), 7.0).T
    kc.launch(increase, (2, 3), [x], [y])
    x.set_(other)  # pyright: ignore[reportArgumentType]
    kc.launch(increase, (2, 3), [x], [y])
    torch.testing.assert_close(y, torch.full((2, 3), 8.0))
    x.data = numbers()
    kc.launch(increase, (2, 3), [x], [y])
    torch.testing.assert_close(y, numbers() + 1.0)
    torch.utils.swap_tensors(x, private("_neg_view", torch.ones(2, 3)))
    assert "resolve_neg" in refusal(x, y)
    x.resize_(4, 5)
    assert "argument 'x'" in refusal(x, y)


def replaced(x: torch.Tensor) -> None:
    x.data = torch.full((2, 3), 7.0)


CHANGES: dict[str, Callable[[torch.Tensor], Any]] = {
    "data": replaced,
    "set": lambda x: x.set_(torch.full((3, 2), 7.0).T),  # pyright: ignore
    "transposed": lambda x: x.set_(x.clone().reshape(3, 2)).t_(),  # pyright: ignore
    "strides": lambda x: x.as_strided_((2, 3), (0, 1)),
    "swapped": lambda x: torch.utils.swap_tensors(x, torch.full((2, 3), 7.0)),
    "shape": lambda x: x.resize_(1, 3),
    "dimensions": lambda x: x.unsqueeze_(0),
    "negated": lambda x: torch.utils.swap_tensors(x, private("_neg_view", numbers())),
    "resized": lambda x: x.resize_(64, 64).fill_(3.0),
    "no storage": lambda x: x.untyped_storage().resize_(0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("type_", [torch.Tensor, torch.nn.Parameter, Subclass])
def test_a_repeated_command_reads_a_tensor_anew(
    type_: type[torch.Tensor], change: Callable[[torch.Tensor], Any]
) -> None:
    def outcome(run: Callable[[], Any]) -> tuple[str, list[Any]]:
        y.zero_()
        try:
            run()
        except kc.KernelError as error:
            return str(error), y.tolist()
        return "", y.tolist()

    x, y = numbers().as_subclass(type_).requires_grad_(False), torch.zeros(2, 3)
    command = kc.launch(increase, (2, 3), [x], [y], record_cmd=True)
    assert command is not None
    for _ in range(3):
        command.launch()
    change(x)
    expected = outcome(lambda: kc.launch(increase, (2, 3), [x], [y]))
    for _ in range(3):
        assert outcome(command.launch) == expected


def test_a_repeated_command_does_not_check_tensors_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = numbers(), torch.zeros(2, 3)
    command = kc.launch(increase, (2, 3), [x], [y], record_cmd=True)
    assert command is not None
    command.launch()
    monkeypatch.delattr(recorded_launch, "execute")
    for i in range(3):
        x.fill_(i)
        command.launch()
        torch.testing.assert_close(y, x + 1.0)


def test_compiled_functions_launch_between_their_graphs() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(x.shape)
        kc.launch(increase, x.shape, [x + 1.0], [y])
        return 2.0 * y

    compiled = torch.compile(doubled, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(numbers()), 2.0 * (numbers() + 2.0))
