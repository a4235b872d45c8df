"""Values of expressions: scalars, composites and views of arrays, and their types."""
