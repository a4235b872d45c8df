"""Kernels as plain Python, thread by thread, so that debuggers step through the user's lines."""
