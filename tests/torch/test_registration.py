"""Operators are registered with torch when something needs them, and no more of them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import kernelcore as kc
from kernelcore.base import source_digest
from torch_ext import derivation, overload, torch_op


# No other test has a kernel of that name, whose operators may be registered already.
@kc.kernel
def rarely_needed(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i] * x[i]


def registered(prefix: str) -> set[str]:
    """The operators and overloads whose names begin so."""
    schemas = torch._C._jit_get_all_schemas()
    return {f"{s.name}.{s.overload_name}" for s in schemas if s.name.startswith(prefix)}


def test_operators_are_registered_when_they_are_needed() -> None:
    op = torch_op(rarely_needed)
    prefix = "kernelcore::rarely_needed_"
    before = registered(prefix)
    x = torch.ones(3, requires_grad=True)
    op(x, 2.0).sum().backward()
    assert registered(prefix) == before
    compiled = torch.compile(lambda x: op(x, 2.0).sin(), fullgraph=True, backend="aot_eager")
    compiled(x).sum().backward()
    made = registered(prefix) - before
    assert sorted(name[len(prefix) + 12 :] for name in made) == [".", "_k.", "_vjp1_1_0_k."]
    torch_op(rarely_needed, "registration::rarely_needed")
    assert registered("registration::rarely_needed") == {
        f"registration::rarely_needed{form}"
        for form in (".", ".out", "_k.", "_t.", "_t.out", "_t_k.")
    }


def test_names_tell_the_version_of_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(path.endswith("passes/autodiff/vjp.py") for path in source_digest._paths())

    def name() -> str:
        derivation._version.cache_clear()
        return overload(torch_op(rarely_needed)).name()

    before = name()
    assert name() == before
    monkeypatch.setattr(derivation, "package_version", lambda: "another")
    assert name() != before
    derivation._version.cache_clear()


def test_operators_of_one_kernel_are_let_go_with_their_last_use() -> None:
    x = torch.ones(3, requires_grad=True)

    def used() -> weakref.ref[Any]:
        op = torch_op(rarely_needed)
        op(x, 2.0).sum().backward()
        return weakref.ref(op)

    kept = [used() for _ in range(3)]
    gc.collect()
    assert [one() for one in kept] == [None] * 3
