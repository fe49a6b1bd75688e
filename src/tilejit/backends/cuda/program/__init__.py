"""What one program of the GPU runs: statements, loops, branches and memory, on register tiles and scalars."""
