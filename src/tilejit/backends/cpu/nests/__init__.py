"""Loop nests over boxes of elements: planned, then written."""
