"""Programs of Warp with torch, JAX and Paddle run here as they are, but for the imports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore.compat.warp as wp
from kernelcore.compat.warp.port.imports import with_own_imports
from tests.helpers.environment import ROOT

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
paddle = pytest.importorskip("paddle")

PAGE = ROOT / "tests/compat/interoperability.md"
_PARTS = re.split(r"^## (.*)\n", PAGE.read_text(), flags=re.MULTILINE)[1:]
SECTIONS = {
    title: "\n".join(re.findall(r"^```python\n(.*?)^```", body, re.MULTILINE | re.DOTALL))
    for title, body in zip(_PARTS[::2], _PARTS[1::2], strict=True)
}
# Steps of Adam in place of 10,000 of a program.
STEPS = 100

Names = dict[str, Any]


def equal(name: str, value: Any) -> Callable[[Names], None]:
    """A check that ``name`` stands for ``value`` in the end."""
    return lambda names: np.testing.assert_allclose(np.asarray(names[name]), value, rtol=1e-6)


def both(*checks: Callable[[Names], None]) -> Callable[[Names], None]:
    def check(names: Names) -> None:
        for one in checks:
            one(names)

    return check


def minimal(names: Names) -> None:
    found = names["xs"]
    points = found.detach().numpy() if hasattr(found, "detach") else found.numpy()
    assert np.abs(points).max() < 1e-4


def as_torch_has_it(names: Names) -> None:
    start = np.random.default_rng(42).normal(size=(1500, 2))
    xy = torch.tensor(start, dtype=torch.float32, requires_grad=True)
    adam = torch.optim.Adam([xy], lr=5e-2)
    for _ in range(STEPS):
        adam.zero_grad()
        x, y = xy[:, 0], xy[:, 1]
        ((1 - x) ** 2 + 100 * (y - x**2) ** 2).sum().backward()
        adam.step()
    np.testing.assert_allclose(names["xy_np"], xy.detach().numpy(), atol=2e-3)


N = np.arange(8)
SCALED = both(equal("r1", 2 * np.arange(10)), equal("r2", 2 * np.arange(10).reshape(5, 2)))
CALLED_BACK = both(equal("c", 2 * np.arange(10)), equal("d", 2 * np.arange(10).reshape(5, 2)))
PRODUCTS = both(equal("r1", np.full((1, 3, 4), 12)), equal("r2", np.full((1, 4, 3), 12)))
ANGLES = np.linspace(0, 2 * np.pi, 32)
CHECKS = {
    "numpy": equal("y", N + 1),
    "torch conversions": equal("y", 1 + 10 * np.arange(9)),
    "torch gradients of tensors": minimal,
    "torch gradients of arrays": minimal,
    "torch function": as_torch_has_it,
    "torch operator": as_torch_has_it,
    "torch as a module": both(equal("t", [1, 2, 3]), equal("w", [1, 2, 3])),
    "torch gradients after init": minimal,
    "jax conversions": equal("jax_array", [0, 1, 2]),
    "jax one output": lambda names: equal("y", 3 * np.arange(64)[None])({"y": names["f"]()}),
    "jax two outputs": both(equal("x", np.full(64, 3)), equal("y", np.full(64, 5))),
    "jax over devices": equal("warp_result", [0, 2, 4, 6, 8]),
    "jax matrix products over devices": equal("allclose", True),
    "jax launch dimensions": lambda names: equal("c", np.full((1, 3, 4), 12))({"c": names["f"]()}),
    "jax.ffi inputs": lambda names: equal("c", 1 + np.arange(10)[None])({"c": names["f"]()}),
    "jax.ffi outputs": lambda names: np.testing.assert_allclose(
        names["s"], np.sin(ANGLES), atol=1e-6
    ),
    "jax.ffi dimensions of calls": PRODUCTS,
    "jax.ffi several launches": SCALED,
    "jax.ffi callback": CALLED_BACK,
    "jax kernels as primitives": lambda names: equal("y", 3 * np.arange(64)[None])(
        {"y": names["f"]()}
    ),
    "jax inputs and outputs": lambda names: np.testing.assert_allclose(
        names["c"], np.cos(ANGLES), atol=1e-6
    ),
    "jax dimensions of calls": PRODUCTS,
    "jax vmap": lambda names: equal("output", np.asarray(names["indices"]).T)(names),
    "jax gradients": both(
        equal("da", 4 * (2 * np.arange(16) + 1)), equal("db", 2 * (2 * np.arange(16) + 1))
    ),
    "jax gradients of two outputs": both(
        equal("da", 2 * np.arange(16) + 2), equal("db", 2 * np.arange(16))
    ),
    "jax gradients of vectors": equal("da2", np.full((5, 2), 3)),
    "jax several launches": SCALED,
    "jax callback": CALLED_BACK,
    "dlpack": both(
        *(equal(name, [0, 1, 2]) for name in ("jax_array", "torch_tensor", "paddle_tensor"))
    ),
    "paddle conversions": equal("y", 1 + 10 * np.arange(9)),
    "paddle gradients of tensors": minimal,
    "paddle gradients of arrays": minimal,
    "runtime": lambda names: np.testing.assert_array_equal(
        names["a"].numpy(), names["r"].astype(np.float32)
    ),
}


def test_every_program_is_checked() -> None:
    assert list(CHECKS) == list(SECTIONS)


@pytest.fixture
def settings() -> Iterator[None]:
    mode, verify_cuda = wp.config.mode, wp.config.verify_cuda
    yield
    wp.config.mode, wp.config.verify_cuda = mode, verify_cuda


@pytest.mark.parametrize("title", SECTIONS)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("settings")
def test_a_program_runs_with_other_imports_alone(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is one process, which needs no other to be found.
    monkeypatch.setattr(jax.distributed, "initialize", lambda: None)
    code = with_own_imports(SECTIONS[title])
    assert len(code.splitlines()) == len(SECTIONS[title].splitlines())
    path = tmp_path / "program.py"
    path.write_text(code.replace("range(10000)", f"range({STEPS})"))
    names = {
        # What the text around the programs gives them.
        "__name__": "program",
        "np": np,
        "wp": wp,
        "torch": torch,
        "jax": jax,
        "jnp": jax.numpy,
        "paddle": paddle,
        "n": 8,
        "device": "cpu",
        "jax_array": jax.numpy.arange(3.0),
        "host_array": wp.zeros(1024, dtype=float),
        "external_array": np.arange(3.0, dtype=np.float32),
        "get_jax_device": lambda: jax.local_devices()[0],
    }
    exec(compile(path.read_text(), str(path), "exec"), names)
    CHECKS[title](names)
