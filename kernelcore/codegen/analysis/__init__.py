"""What code generation needs to know of a kernel: uniformity, dependences, tiling."""
