"""Rewrites of tile IR, one per file, and the order in which each target runs them."""
