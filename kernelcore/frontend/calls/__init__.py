"""Calls: built-ins, functions and their overloads, intrinsics, snippets, compile-time values."""
