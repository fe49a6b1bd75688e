"""Writes kernels as PTO text."""
