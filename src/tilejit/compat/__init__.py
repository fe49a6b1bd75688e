"""Other names for what is here, for the sake of scripts that were written for something else."""
