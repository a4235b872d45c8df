"""Kernels as users of another system wrote them: only the import names kernelcore."""
