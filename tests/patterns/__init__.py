"""Kernels whose derivatives are hard to get right, each with its meaning in NumPy."""

from tests.patterns import loops, memory
from tests.patterns.declare import PATTERNS, Pattern

__all__ = ["PATTERNS", "Pattern", "loops", "memory"]
