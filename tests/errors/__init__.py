"""User mistakes and the exact messages they get."""
