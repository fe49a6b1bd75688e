"""Compiled kernels on disk: their keys, and the way back."""
