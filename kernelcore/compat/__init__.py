"""Other libraries' names and results for programs that were written for them.

May import: everything of kernelcore and, when they are used, the adapters.
"""
