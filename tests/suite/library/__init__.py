"""Helpers that kernels of other modules import."""
