"""Kernels that are damaged at random compile, or are refused in the user's terms, with a place."""

from __future__ import annotations

import ast
import linecache
import os
import textwrap
from typing import Any

import pytest

import kernelcore as kc
from kernelcore.base.errors import VerifyError
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.passes.pipeline import normalize
from tests.fuzz.mutations import TREES, mutated
from tests.helpers.refused_composites import HEAD, SIGNATURE

# KC_FUZZ_MUTATIONS asks for a longer run, KC_FUZZ_SEED for another stretch of seeds.
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0"))
COUNT = int(os.environ.get("KC_FUZZ_MUTATIONS", "800"))
PARTS = 8


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """The names of HEAD."""
    found: dict[str, Any] = {"__name__": "user"}
    exec(compile(_text("<head>", HEAD), "<head>", "exec", dont_inherit=True), found)
    return found


def _text(file: str, text: str) -> str:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return text


def check(text: str, names: dict[str, Any]) -> None:
    """Compile the kernel that ``text`` defines; whatever is wrong is a KernelError with a place."""
    try:
        code = compile(_text("<kernel>", text), "<kernel>", "exec", dont_inherit=True)
    except SyntaxError:
        return
    found = dict(names)
    exec(code, found)
    try:
        normalize(specialize_kernel(found["kernel"]))
    except VerifyError:
        raise
    except kc.KernelError as error:
        if error.loc is None:
            raise


@pytest.mark.parametrize("tree", TREES)
def test_undamaged_kernels_compile(tree: ast.Module, names: dict[str, Any]) -> None:
    found = dict(names)
    exec(
        compile(_text("<kernel>", ast.unparse(tree)), "<kernel>", "exec", dont_inherit=True), found
    )
    normalize(specialize_kernel(found["kernel"]))


# Bodies that once ended inside of the compiler.
ONCE_FOUND = (
    "for j in range(10**30):\n    s = v[j]",
    "y[0] = SIZES(half, a)",
    "u = v[::0]",
    "u = half(1e300)",
    "def f(e: int = n):\n    return e\nn = f()",
    "n = kc.static(next(iter(())))",
    "y[0] = " + "a if n > 0 else " * 600 + "a",
    "".join(f"if n == {k}:\n    return\n" for k in range(600)),
)


@pytest.mark.parametrize("body", ONCE_FOUND, ids=range(len(ONCE_FOUND)))
def test_regressions_stay_fixed(body: str, names: dict[str, Any]) -> None:
    check(SIGNATURE + textwrap.indent(body, "    ") + "\n", names)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_kernels_are_refused_in_words(part: int, names: dict[str, Any]) -> None:
    for seed in range(FIRST + part, FIRST + COUNT, PARTS):
        text = ""
        try:
            text = mutated(seed)
            check(text, names)
        except BaseException as error:
            error.add_note(f"seed {seed}:\n{text}")
            raise
