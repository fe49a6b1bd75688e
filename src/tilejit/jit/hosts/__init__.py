"""Host functions, and the ranks that they launch."""
