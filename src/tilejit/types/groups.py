"""What parts the language has: a module of its own, since importing the language loads nothing else."""

GROUPS = ("tensor", "tile", "system", "array", "prefetch")
"""Those that are objects with operators of their own: `pl.tile.load`."""
