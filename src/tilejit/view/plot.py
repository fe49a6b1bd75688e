"""Plots as SVG text that needs nothing else: lines and points over two axes, linear or logarithmic, light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_COLOURS = ("#2f6fde", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#0b7285", "#5f3dc4", "#846800")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.frame{fill:none;stroke:#888}.grid{stroke:#ddd}.title{font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}"
)
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 34, 16, 46


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis means, and which way it counts."""

    title: str
    logarithmic: bool = False

    def at(self, value: float, low: float, high: float) -> float:
        """Where a value lies between 0 and 1."""
        place = math.log if self.logarithmic else float
        return (place(value) - place(low)) / ((place(high) - place(low)) or 1.0)

    def ticks(self, low: float, high: float) -> list[float]:
        """Round numbers between two."""
        if self.logarithmic:
            powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            found = [factor * 10.0**power for power in powers for factor in ((1, 2, 5) if high / low < 200 else (1,))]
        else:
            step = 10 ** math.floor(math.log10((high - low) or 1.0))
            step = next(step * part for part in (1, 0.5, 0.2, 0.1) if (high - low) / (step * part) >= 4 or part == 0.1)
            found = [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
        return [value for value in found if low * 0.999 <= value <= high * 1.001]


@dataclass(frozen=True, slots=True)
class Series:
    """A line through points, or points alone, with the name that the legend says."""

    name: str
    points: Sequence[tuple[float, float]]
    line: bool = True
    labels: Sequence[str] = ()
    """Texts beside the points."""
    dashed: bool = False


@dataclass
class Plot:
    """A figure."""

    title: str
    x: Axis
    y: Axis
    series: list[Series] = field(default_factory=list[Series])
    width: int = 640
    height: int = 380

    def svg(self) -> str:
        """The figure as one element."""
        points = [point for series in self.series for point in series.points]
        (left, right), (low, high) = _range((x for x, _ in points), self.x), _range((y for _, y in points), self.y)
        across, up = self.width - _LEFT - _RIGHT, self.height - _TOP - _BOTTOM

        def place(x: float, y: float) -> tuple[float, float]:
            return _LEFT + across * self.x.at(x, left, right), _TOP + up * (1 - self.y.at(y, low, high))

        out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" role="img">', f"<style>{_STYLE}</style>"]
        out.append(_text(self.width / 2, 18, self.title, "middle", "title"))
        for value in self.x.ticks(left, right):
            at, _ = place(value, low)
            out.append(f'<line class="grid" x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{_TOP + up}"/>' + _text(at, _TOP + up + 16, _number(value), "middle"))
        for value in self.y.ticks(low, high):
            _, at = place(left, value)
            out.append(f'<line class="grid" x1="{_LEFT}" y1="{at:.1f}" x2="{_LEFT + across}" y2="{at:.1f}"/>' + _text(_LEFT - 6, at + 4, _number(value), "end"))
        out.append(f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{across}" height="{up}"/>')
        out.append(_text(_LEFT + across / 2, self.height - 8, self.x.title, "middle"))
        out.append(f'<g transform="rotate(-90 14 {_TOP + up / 2:.0f})">{_text(14, _TOP + up / 2, self.y.title, "middle")}</g>')
        for number, series in enumerate(self.series):
            colour, legend = _COLOURS[number % len(_COLOURS)], _TOP + 16 + 16 * number
            out += _drawn(series, [place(x, y) for x, y in series.points], colour)
            out.append(f'<circle cx="{_LEFT + 12}" cy="{legend - 4}" r="4" fill="{colour}"/>' + _text(_LEFT + 22, legend, series.name))
        return "\n".join([*out, "</svg>"])


def _drawn(series: Series, places: Sequence[tuple[float, float]], colour: str) -> Iterable[str]:
    if series.line:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dashes = ' stroke-dasharray="6 4"' if series.dashed else ""
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
    for at, (x, y) in enumerate(places if not series.dashed else ()):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3 if series.line else 5}" fill="{colour}"/>'
        if at < len(series.labels):
            yield _text(x + 8, y + 4, series.labels[at])


def _range(values: Iterable[float], axis: Axis) -> tuple[float, float]:
    listed = list(values) or [1.0]
    low, high = min(listed), max(listed)
    if axis.logarithmic:
        return low / 1.3, high * 1.3
    return min(0.0, low), high * 1.08 or 1.0


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    marked = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{marked}>{html.escape(text)}</text>'


def _number(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return f"{value:g}"
