"""`python -m tilejit` is the `tilejit` command."""

from __future__ import annotations

import sys

from tilejit.tools.cli import main

sys.exit(main())
