"""A record of a compile as one HTML file that needs nothing else."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from tilejit.view.record import Record


@dataclass(frozen=True)
class Trace:
    """A compile that was watched: `path` is the page, `record` what it shows."""

    record: Record = field(repr=False)
    path: Path

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(page(self.record))}" style="width: 100%; height: 600px; border: 1px solid #ccc"></iframe>'


def page(record: Record) -> str:
    """The page itself."""
    template = resources.files("tilejit.view").joinpath("page.html").read_text(encoding="utf-8")
    data = json.dumps(record.plain(), separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return template.replace("__TITLE__", html.escape(record.name)).replace("__DATA__", data)


def write(record: Record, path: str | os.PathLike[str] | None) -> Trace:
    """Write the page; without a path to `trace-NAME.html` in the present directory."""
    target = Path(path if path is not None else f"trace-{record.name}.html")
    target.write_text(page(record), encoding="utf-8")
    return Trace(record, target)
