"""A short run of processes on one disk cache that are killed at random."""

from __future__ import annotations

from tests.fuzz.cache_kills import campaign


def test_processes_that_are_killed_leave_no_wrong_and_no_lost_entry() -> None:
    assert "none wrong" in campaign(processes=4, seconds=6.0, longest=4.0)
