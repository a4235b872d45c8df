"""What expressions stand for: scalars, composites and views of arrays, and their types."""
