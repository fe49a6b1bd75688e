"""Loop nests over boxes of elements: merged, planned, launched."""
