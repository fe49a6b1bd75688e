"""An operation called as an ordinary function."""

import tilejit.language as pl

def mistake() -> object:
    return pl.add(1, 2)
