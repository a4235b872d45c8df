"""Syntax trees of texts that several threads parse at once."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernelcore.language import syntax_tree

TEXT = "def f(x):\n    return [(x + 1) * 2, x if x > 0 else -x]\n" * 200


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns wherever the garbage collector, which runs often, calls Python."""

    def called_back(phase: str, info: dict[str, int]) -> None:
        pass

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-5)
    gc.set_threshold(100)
    gc.callbacks.append(called_back)
    yield
    gc.callbacks.remove(called_back)
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


def test_threads_that_parse_at_once_get_the_tree_of_one(switching: None) -> None:
    expected = ast.dump(ast.parse(TEXT))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(syntax_tree.parse, [TEXT] * 40))
    assert all(ast.dump(tree) == expected for tree in found)


def test_errors_say_the_file() -> None:
    with pytest.raises(SyntaxError) as caught:
        syntax_tree.parse("x = = 1", "given.py")
    assert (caught.value.filename, caught.value.lineno) == ("given.py", 1)


def test_an_expression_is_no_statement() -> None:
    assert ast.unparse(syntax_tree.parse_expression("a+ 1")) == "a + 1"
    with pytest.raises(SyntaxError):
        syntax_tree.parse_expression("a = 1")
