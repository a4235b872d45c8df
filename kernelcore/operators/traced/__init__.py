"""Host functions that launch kernels, traced to a program of operations."""
