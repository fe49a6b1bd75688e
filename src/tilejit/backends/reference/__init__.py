"""The reference: tile IR interpreted with NumPy."""
