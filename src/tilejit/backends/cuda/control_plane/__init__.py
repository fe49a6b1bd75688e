"""The host program of an entry: what it computes, allocates and launches."""
