"""Source-backed PTO kernels."""
