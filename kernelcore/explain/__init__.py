"""Reports on what kernels compile to, and why. May import: launch and below."""
