"""Fits the polynomials of the CPU backend's vector maths and writes them to src/tilejit/backends/cpu/lanes/coefficients.py.

Run it when a range or degree changes: `python scripts/fit_polynomials.py` (needs mpmath; nothing at run time needs this script).

Every fit is a weighted minimax approximation found by Lawson's iteration (least squares whose weights grow where the error is large).
Coefficients are rounded to their format one at a time, lowest order first, and the rest is fitted again, so that rounding of one is
made up for by the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Number = Any
"""An mpmath number."""
Function = Callable[[Number], Number]

mp.mp.prec = 1500
POINTS = 400
ITERATIONS = 60
TARGET = Path(__file__).parent.parent / "src/tilejit/backends/cpu/lanes/coefficients.py"


@dataclass(frozen=True)
class Fit:
    """f(x) ~ c0 + c1 x + … on [low, high]; the error is counted after multiplying with `weight`."""

    name: str
    f: Function
    weight: Function
    low: float
    high: float
    degree: int
    meaning: str
    format: type = np.float32


def ratio(top: Function, bottom: Function, at_zero: float) -> Function:
    return lambda x: top(x) / bottom(x) if x else mp.mpf(at_zero)


LN2 = mp.log(2)
QUARTER_PI = float(mp.pi / 4)
ROOT = float(mp.sqrt(2))
ERF_LIMIT = 3.93
"""From here on erf rounds to 1."""
ERF_STEP = 65 / 256
"""Distance of the 16 centres; multiples of it are exact floats, and the last one reaches ERF_LIMIT."""

FITS = (
    Fit("EXP", ratio(lambda r: mp.exp(r) - 1 - r, lambda r: r * r, 0.5), lambda r: r * r / mp.exp(r), -0.3468, 0.3468, 4, "exp(r) = 1 + r + r*r*P(r)"),
    Fit(
        "LOG",
        ratio(lambda f: mp.log1p(f) - f + f * f / 2, lambda f: f**3, 1 / 3),
        lambda f: f**3 / mp.log1p(f) if f else mp.mpf(0),
        ROOT / 2 - 1,
        ROOT - 1,
        7,
        "log(1 + f) = f - f*f/2 + f*f*f*P(f)",
    ),
    Fit(
        "TANH",
        ratio(lambda s: mp.tanh(mp.sqrt(s)) / mp.sqrt(s) - 1, lambda s: s, -1 / 3),
        lambda s: s * mp.sqrt(s) / mp.tanh(mp.sqrt(s)) if s else mp.mpf(0),
        0.0,
        0.625**2,
        4,
        "tanh(x) = x + x*s*P(s), s = x*x, |x| <= 0.625",
    ),
    Fit(
        "SIN",
        ratio(lambda s: mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1, lambda s: s, -1 / 6),
        lambda s: s * mp.sqrt(s) / mp.sin(mp.sqrt(s)) if s else mp.mpf(0),
        0.0,
        QUARTER_PI**2 * 1.0001,
        2,
        "sin(r) = r + r*s*P(s), s = r*r, |r| <= pi/4",
    ),
    Fit(
        "COS",
        ratio(lambda s: mp.cos(mp.sqrt(s)) - 1 + s / 2, lambda s: s * s, 1 / 24),
        lambda s: s * s / mp.cos(mp.sqrt(s)),
        0.0,
        QUARTER_PI**2 * 1.0001,
        2,
        "cos(r) = 1 - s/2 + s*s*P(s), s = r*r, |r| <= pi/4",
    ),
    Fit(
        "LOG2_WIDE",
        ratio(lambda s: 2 * mp.atanh(mp.sqrt(s)) / LN2 / mp.sqrt(s), lambda s: mp.mpf(1), float(2 / LN2)),
        lambda s: LN2 / 2,
        0.0,
        float(((ROOT - 1) / (ROOT + 1)) ** 2) * 1.0001,
        6,
        "log2(m) = q*P(q*q), q = (m - 1)/(m + 1), sqrt(1/2) <= m <= sqrt(2), in double",
        np.float64,
    ),
    Fit("EXP2_WIDE", lambda f: mp.mpf(2) ** f, lambda f: mp.mpf(2) ** -f, -0.5001, 0.5001, 7, "2**f = P(f), |f| <= 1/2, in double", np.float64),
)


def chebyshev_nodes(low: float, high: float) -> Array:
    angles = (np.arange(POINTS) + 0.5) * np.pi / POINTS
    return (low + high) / 2 + (high - low) / 2 * np.cos(angles)


def lawson(basis: Array, values: Array, weight: Array) -> Array:
    """Coefficients of the weighted minimax combination of the columns of `basis`."""
    attention = np.ones(len(values))
    best: tuple[float, Array] = (np.inf, np.zeros(basis.shape[1]))
    for _ in range(ITERATIONS):
        scale = np.sqrt(attention) * weight
        solution = np.asarray(np.linalg.lstsq(basis * scale[:, None], values * scale, rcond=None)[0], np.float64)
        error = np.abs(weight * (basis @ solution - values))
        if error.max() < best[0]:
            best = (float(error.max()), solution)
        attention *= error + 1e-3 * error.max()
        attention /= attention.sum()
    return best[1]


def fit_polynomial(fit: Fit) -> tuple[list[float], float]:
    x = chebyshev_nodes(fit.low, fit.high)
    values = np.array([float(fit.f(mp.mpf(float(v)))) for v in x])
    weight = np.array([abs(float(fit.weight(mp.mpf(float(v))))) for v in x])
    scale = max(abs(fit.low), abs(fit.high))
    fixed: list[float] = []
    for order in range(fit.degree + 1):
        rest = values - sum((c * x**i for i, c in enumerate(fixed)), np.zeros_like(x))
        basis = np.stack([(x / scale) ** i for i in range(order, fit.degree + 1)], axis=1)
        fixed.append(float(fit.format(lawson(basis, rest, weight)[0] / scale**order)))
    error = max(abs(fit.weight(mp.mpf(float(v))) * (mp.polyval(fixed[::-1], mp.mpf(float(v))) - fit.f(mp.mpf(float(v))))) for v in x)
    return fixed, float(error)


def fit_erf() -> tuple[list[list[float]], float]:
    """erf(t) = P_i(t - i*ERF_STEP) for the nearest i, 16 polynomials; the first is relative to t, as erf(0) = 0."""
    table: list[list[float]] = []
    worst = 0.0
    for i in range(16):
        centre = mp.mpf(i * ERF_STEP)
        low, high = (0.0 if i == 0 else -ERF_STEP / 2), ERF_STEP / 2
        if i == 0:
            values, error = fit_polynomial(Fit("", ratio(mp.erf, lambda t: t, float(2 / mp.sqrt(mp.pi))), lambda t: mp.sqrt(mp.pi) / 2, low, high, 4, ""))
            table.append([0.0, *values])
        else:
            values, error = fit_polynomial(Fit("", lambda u, c=centre: mp.erf(c + u), lambda u, c=centre: 1 / mp.erf(c + u), low, high, 5, ""))
            table.append(values)
        worst = max(worst, error)
    return table, worst


def written(name: str, values: list[float], meaning: str, error: float) -> str:
    numbers = ", ".join(repr(v) for v in values)
    return f'{name} = ({numbers})\n"""{meaning}; relative error of the fit {error:.1e}."""\n'


def split(value: Number, bits: int) -> tuple[float, float]:
    """`value` as a head of few bits, so that small multiples of it are exact, and the rest."""
    scale = mp.mpf(2) ** (bits - 1 - mp.floor(mp.log(value, 2)))
    head = mp.nint(value * scale) / scale
    return float(head), float(value - head)


def split_wide(value: Number, parts: int = 2) -> tuple[float, ...]:
    """`value` as a sum of doubles, each the nearest to what is left."""
    out: list[float] = []
    for _ in range(parts):
        out.append(float(value - sum(mp.mpf(part) for part in out)))
    return tuple(out)


def main() -> None:
    out = ['"""Coefficients of the vector maths, lowest order first; written by scripts/fit_polynomials.py."""\n']
    for fit in FITS:
        values, error = fit_polynomial(fit)
        out.append(written(fit.name, values, fit.meaning, error))
    out.append(f"ERF_LIMIT = {float(np.float32(ERF_LIMIT))!r}\n" + '"""From here on erf rounds to 1."""\n')
    out.append(f"ERF_STEP = {ERF_STEP!r}\n" + '"""Distance of the centres of ERF."""\n')
    table, error = fit_erf()
    rows = "".join(f"    ({', '.join(repr(row[order]) for row in table)}),\n" for order in range(6))
    meaning = f"erf(t) = P_i(t - i*ERF_STEP): by order, the coefficients of the 16 polynomials; relative error of the fit {error:.1e}."
    out.append(f'ERF = (\n{rows})\n"""{meaning}"""\n')
    head, rest = split(LN2, 9)
    out.append(f"LN2 = {(head, float(np.float32(rest)))}\n" + '"""log(2) as a short head and the rest."""\n')
    out.append(f"LN2_WIDE = {split(LN2, 40)}\n" + '"""log(2) in two doubles, the first one short."""\n')
    out.append(f"HALF_PI_WIDE = {split_wide(mp.pi / 2, 3)}\n" + '"""pi/2 in three doubles."""\n')
    words = [int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * (i + 1)))) & (1 << 64) - 1 for i in range(20)]
    out.append(f"TWO_OVER_PI_BITS = {tuple(words)}\n" + '"""The first 1280 binary places of 2/pi, in words of 64."""\n')
    TARGET.write_text("\n".join(out))
    print(TARGET.read_text())


if __name__ == "__main__":
    main()
