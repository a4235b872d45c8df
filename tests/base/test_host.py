"""What is known of the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelcore.base import host


@pytest.mark.parametrize(
    ("text", "is_fast"),
    [
        ("Not affected\n", True),
        ("Vulnerable: No microcode\n", True),
        ("Mitigation: Microcode\n", False),
        ("Unknown: Dependent on hypervisor status\n", False),
        (None, False),
    ],
)
def test_gathers_that_wait_are_not_used(
    text: str | None, is_fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gather_data_sampling"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(host, "_GATHER_LEAK", str(file))
    assert host.gathers_at_full_speed.__wrapped__() == is_fast
