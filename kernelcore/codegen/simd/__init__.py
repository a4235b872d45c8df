"""Vectorisation on the CPU: strategy, loops over the grid, vector and masked access."""
