"""The suites that run on a GPU name files that exist."""

from __future__ import annotations

from tests.gpu.__main__ import PARTS, SUITES
from tests.helpers.environment import ROOT


def test_every_file_of_the_gpu_suites_exists() -> None:
    named = [name for files in (*PARTS.values(), *SUITES.values()) for name in files]
    assert [name for name in named if not (ROOT / name).exists()] == []
