"""Types and values that users annotate with and pass; functions. May import: base."""
