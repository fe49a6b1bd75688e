"""Work of several threads: teams, fibers and FIFOs."""
