"""Ops that rearrange cells, or reach them by index."""
