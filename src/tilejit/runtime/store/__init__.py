"""The disk cache: one checksummed file per entry."""
