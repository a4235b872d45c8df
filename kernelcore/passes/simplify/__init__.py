"""Passes that keep the meaning and shorten the code."""
