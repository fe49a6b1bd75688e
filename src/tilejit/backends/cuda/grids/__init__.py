"""How work is shared out over the programs of a GPU."""
