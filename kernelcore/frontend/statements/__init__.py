"""Statements and control flow."""
