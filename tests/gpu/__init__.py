"""Everything that there is to run on a GPU, in one command."""
