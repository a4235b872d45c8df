"""Additions to elements that threads share, in an order no thread count changes."""
