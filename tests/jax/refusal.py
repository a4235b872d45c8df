"""How tests of the JAX adapter check that a call is refused: by the whole text of the error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import pytest

import kernelcore as kc
from tests.helpers.environment import ROOT

Golden = Callable[[str, str], None]


def check_refusal(call: Callable[[], Any], name: str, golden_error: Golden) -> None:
    """``call`` raises a KernelError with a golden text, and raises one too where it is traced.

    Args:
        call: What is refused.
        name: The section of the text in the golden file of the test's module.
        golden_error: The fixture.
    """
    with pytest.raises(kc.KernelError) as caught:
        call()
    text = str(caught.value).replace(f"{ROOT}/", "")
    text = re.sub(r"line \d+", "line N", text)
    golden_error(name, f"{type(caught.value).__name__}: {text}")
    assert "help:" in text
    with pytest.raises(kc.KernelError):
        jax.make_jaxpr(call)()
