"""Kernels as somebody who comes from NumPy, torch or Triton writes them, one per file, against NumPy and torch."""
