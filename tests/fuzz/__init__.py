"""Random programs: every one runs the same on the reference and the cpu, and survives printing, parsing and lowering."""
