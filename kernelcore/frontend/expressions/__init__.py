"""Operators and expressions."""
