"""Kernels, the strategy by which each is vectorised, and arguments: one table for all tests."""

from tests.helpers.vectorised import gangs, loops, rows

CASES = [*gangs.CASES, *rows.CASES, *loops.CASES]
