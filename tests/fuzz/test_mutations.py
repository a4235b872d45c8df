"""Kernels that are damaged at random compile, or are refused in the user's terms, with a place."""

from __future__ import annotations

import ast
import linecache
import os
from typing import Any

import pytest

import kernelcore as kc
from kernelcore.errors import VerifyError
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.passes.pipeline import normalize
from tests.fuzz.mutations import TREES, mutated
from tests.refused_composites import HEAD

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
def test_what_is_damaged_compiles(tree: ast.Module, names: dict[str, Any]) -> None:
    found = dict(names)
    exec(
        compile(_text("<kernel>", ast.unparse(tree)), "<kernel>", "exec", dont_inherit=True), found
    )
    normalize(specialize_kernel(found["kernel"]))


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
