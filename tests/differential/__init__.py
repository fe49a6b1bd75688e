"""Every row of the op table, with every dtype it declares, computes the same on cpu and reference."""
