"""Tile kernels in Python, run natively."""
