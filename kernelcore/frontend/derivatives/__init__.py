"""Derivatives in the source: rules that users give, and gradients inside kernels."""
