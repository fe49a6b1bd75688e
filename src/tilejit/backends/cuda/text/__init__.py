"""Triton text: its lines, types, values and numbers, and the functions that it calls."""
