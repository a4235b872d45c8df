"""Kernels, launches, capture and replay, map. May import: compiler, runtime and below."""
