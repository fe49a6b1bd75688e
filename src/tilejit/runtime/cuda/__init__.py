"""Runs compiled CUDA programs through the driver: no compiler, and no library but the driver's own."""
