"""Code for CUDA devices: PTX, warp reductions, NVRTC."""
