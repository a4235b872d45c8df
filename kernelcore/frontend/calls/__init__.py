"""Calls: built-ins, functions and their overloads, intrinsics, snippets, what is known early."""
