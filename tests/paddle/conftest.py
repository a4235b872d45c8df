"""Static programs of tests live as long as the tests: see ``_programs_live_on``."""

from __future__ import annotations

from typing import Any

import paddle
import pytest

_KEPT: list[Any] = []


@pytest.fixture(autouse=True)
def _programs_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what ``paddle.jit.to_static`` makes.

    Paddle takes parts of a program that is freed for those of one that it makes later, in programs
    of its own operators as well: one of about fifty gives a wrong gradient or ends the process.
    """
    to_static = paddle.jit.to_static

    def kept(*args: Any, **kwargs: Any) -> Any:
        program: Any = to_static(*args, **kwargs)
        _KEPT.append(program)
        return program

    monkeypatch.setattr(paddle.jit, "to_static", kept)
