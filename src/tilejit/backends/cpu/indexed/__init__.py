"""Ops that reach elements by index."""
