"""Kernels whose derivatives are hard to get right, each with its meaning in NumPy."""

from tests.patterns import composites, loops, memory
from tests.patterns.declare import PATTERNS, Pattern

__all__ = ["PATTERNS", "Pattern", "composites", "loops", "memory"]
