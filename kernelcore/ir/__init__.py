"""Structured SSA: grammar, builder, verifier, printer. May import: language and below."""
