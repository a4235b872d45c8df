"""Operators on CUDA devices, as far as a torch without CUDA knows them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import kernelcore as kc
from tests.torch import torch_kernels as k
from torch_ext import derivation, torch_callable, torch_op
from torch_ext.entry import operators_of, overload

quadratic = torch_op(k.quadratic)


@kc.kernel
def shifted(offset: kc.vec3d, points: kc.array(dtype=kc.vec3d)):
    i = kc.tid()
    points[i] = points[i] + offset


shift = torch_op(shifted)


@kc.kernel
def ramp(step: kc.float64, y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = step * kc.float64(i)


@kc.kernel
def added(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] += x[i]


def sloped(x: kc.array(dtype=kc.float64), step: kc.float64, y: kc.array(dtype=kc.float64)):
    fixed, like = kc.zeros(4, dtype=kc.float64), kc.zeros(x.shape[0], dtype=kc.float64)
    kc.launch(ramp, 4, [step], [fixed])
    kc.launch(added, 4, [fixed], [like])
    kc.launch(added, 4, [x], [like])
    kc.launch(added, 4, [like], [y])


def empty(*shape: int, device: str = "cuda:1") -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float64, device=device)


def test_results_are_on_the_device_of_the_tensors() -> None:
    with FakeTensorMode():
        x, a = empty(4), torch.tensor(2.0, dtype=torch.float64)
        assert quadratic(x, 1.0).device == x.device
        assert quadratic(x, a).device == quadratic(x, a.to("cuda:1")).device == x.device
        assert torch.func.vmap(lambda row: quadratic(row, a))(empty(3, 4)).device == x.device
        assert shift((1.0, 2.0, 3.0), empty(4, 3)).device == x.device
        adjoint, _ = operators_of(quadratic).tensors.derived(derivation.vjp((0, 1), (0,), ()))
        assert adjoint is not None
        assert {t.device for t in adjoint.public(x, a, x)} == {x.device}


def test_temporaries_of_functions_are_on_the_device_of_their_arrays() -> None:
    op = torch_callable(sloped)
    with FakeTensorMode():
        assert op(empty(4), 0.5).device == torch.device("cuda:1")
    found = op(torch.ones(4, dtype=torch.float64), 0.5)
    assert found.tolist() == [1.0, 1.5, 2.0, 2.5]


def test_graphs_have_operators_on_devices() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        graphs: list[torch.fx.GraphModule] = []

        def keep(graph: torch.fx.GraphModule, inputs: Any) -> Any:
            graphs.append(graph)
            return graph

        compiled = torch.compile(
            lambda x: shift((1.0, 2.0, 3.0), x).sum(), backend=keep, fullgraph=True
        )
        assert compiled(empty(4, 3)).device.type == "cuda"
        made = [n for n in graphs[0].graph.nodes if n.target is torch.full]
        assert [str(n.kwargs["device"]) for n in made] == ["cuda:1"] * 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quadratic(empty(4, device="xpu"), 1.0), "on the CPU or a CUDA device, .* xpu:0"),
        (
            lambda: quadratic(empty(4, device="cpu"), empty()),
            "'x': expected a tensor on cuda:1, where another argument is, found one on cpu",
        ),
        (lambda: shift(empty(3, device="cuda:0"), empty(4, 3)), "'points': expected .* cuda:0"),
        (
            lambda: shift(empty(3, device="cpu").requires_grad_(), empty(4, 3)),
            r"'offset': .* found one on cpu\n(.*\n)*  help: move it with .to\('cuda:1'\)",
        ),
    ],
)
def test_tensors_elsewhere_are_refused(call: Any, message: str) -> None:
    with FakeTensorMode(), pytest.raises(kc.KernelArgumentError, match=message):
        call()


def test_a_torch_with_cuda_has_kernels_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    op = torch_op(k.quadratic, "devicetests::quadratic")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in (overload(op).name(), f"{overload(op).name()}_k"):
        assert has_kernel(name, "CUDA")
        assert has_kernel(name, "CPU")
    assert has_kernel(overload(op).name(), "AutocastCUDA")
    x = torch.ones(3, dtype=torch.float64)
    torch.testing.assert_close(op(x, 2.0), quadratic(x, 2.0))
