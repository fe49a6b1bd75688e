"""What kernels are written with: annotations, enums, scope and loop markers, and the types of values."""
