"""Kernels whose derivatives are hard to get right, each with its meaning in NumPy."""

from tests.helpers.patterns import (
    arrays,
    atomics,
    composites,
    exits,
    functions,
    loops,
    memory,
    rotations,
    rules,
    structs,
    views,
)
from tests.helpers.patterns.declare import PATTERNS, Pattern

__all__ = [
    "PATTERNS",
    "Pattern",
    "arrays",
    "atomics",
    "composites",
    "exits",
    "functions",
    "loops",
    "memory",
    "rotations",
    "rules",
    "structs",
    "views",
]
