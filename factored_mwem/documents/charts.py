"""Charts: the places of the marks of a picture, in the units of an SVG; a template draws them.

All bars of a picture are one path, all dots another: a page of a hundred columns stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from factored_mwem.documents.groups import start_of
from factored_mwem.documents.page import plain

WIDTH = 340
"""Width of a picture, about that of a phone."""
LABELS, RIGHT, ROW = 116, 8, 17
"""Room for labels at the left, room at the right, and the height of a row."""
TALL, BELOW, TOP, LEFT = 128, 20, 6, 34
"""An upright picture: the height of its bars, room below and above them, and room for its scale."""
MOST_TICKS = 5


class ChartMark(NamedTuple):
    """A text in a picture."""

    x: float
    y: float
    text: str
    anchor: str = "start"


@dataclass(frozen=True, slots=True)
class Series:
    """The shares that are drawn for every group, float64[group]: `bars`, and `dots` with whiskers from `low`
    to `high`; None if unknown.
    """

    bars: np.ndarray | None
    dots: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    beside: np.ndarray | None = None
    """A second set of bars."""

    @property
    def top(self) -> float:
        """The largest share."""
        known = [s for s in (self.bars, self.dots, self.high, self.beside) if s is not None and len(s)]
        return max([float(np.nanmax(s)) for s in known] + [1e-6])


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture: paths and texts."""

    width: int
    height: float
    bars: str
    beside: str
    whiskers: str
    dots: tuple[tuple[float, float], ...]
    grid: str
    texts: tuple[ChartMark, ...]


def across(labels: Sequence[str], series: Series, left: int = LABELS) -> Chart:
    """A bar a row, its label at the left, where there is room of `left`."""
    top, room = _nice(series.top), WIDTH - left - RIGHT
    bottom = ROW * len(labels)
    thick = 11 if series.beside is None else 5

    def x(share: float) -> float:
        return round(left + room * _inside(share, top) / top, 1)

    texts = [
        ChartMark(left - 5, ROW * i + 12, plain(name, left // 7), "end") for i, name in enumerate(labels)
    ]
    for share in (0.0, top / 2, top):
        anchor = "start" if share == 0 else "end" if share == top else "middle"
        texts.append(ChartMark(x(share), bottom + BELOW - 6, _scale(share), anchor))
    return Chart(
        WIDTH,
        bottom + BELOW,
        bars=_path(lambda i, s: f"M{left} {ROW * i + 3}H{x(s)}v{thick}H{left}z", series.bars),
        beside=_path(lambda i, s: f"M{left} {ROW * i + 9}H{x(s)}v5H{left}z", series.beside),
        whiskers=_path(
            lambda i, low, high: (
                f"M{x(low)} {ROW * i + 5.5}v6M{x(low)} {ROW * i + 8.5}H{x(high)}M{x(high)} {ROW * i + 5.5}v6"
            ),
            series.low,
            series.high,
        ),
        dots=tuple((x(share), ROW * i + 8.5) for i, (share,) in _known(series.dots)),
        grid="".join(f"M{x(share)} 0V{bottom}" for share in (0.0, top / 2, top)),
        texts=tuple(texts),
    )


def upright(labels: Sequence[str], series: Series) -> Chart:
    """A bar a column; below, where a few of them begin."""
    top, room, count = _nice(series.top), WIDTH - LEFT - RIGHT, max(len(labels), 1)
    step, base = room / count, TOP + TALL
    thick = round(step * 0.84, 2)
    half = thick if series.beside is None else round(thick / 2, 2)

    def y(share: float) -> float:
        return round(base - TALL * _inside(share, top) / top, 1)

    def x(i: float) -> float:
        return round(LEFT + step * i, 1)

    texts = [ChartMark(LEFT - 4, y(share) + 4, _scale(share), "end") for share in (0.0, top / 2, top)]
    starts = [start_of(label) for label in labels]
    for i in _spread(starts, room):
        anchor, at = ("start", x(i)) if i == 0 else ("middle", x(i + 0.5))
        if i and i == len(labels) - 1:
            anchor, at = "end", x(i + 1)
        texts.append(ChartMark(at, base + 14, plain(starts[i], 18), anchor))
    return Chart(
        WIDTH,
        base + BELOW,
        bars=_path(lambda i, s: f"M{x(i + 0.08)} {base}V{y(s)}h{half}V{base}z", series.bars),
        beside=_path(
            lambda i, s: f"M{round(x(i + 0.08) + half, 1)} {base}V{y(s)}h{half}V{base}z", series.beside
        ),
        whiskers=_path(lambda i, low, high: f"M{x(i + 0.5)} {y(low)}V{y(high)}", series.low, series.high),
        dots=tuple((x(i + 0.5), y(share)) for i, (share,) in _known(series.dots)),
        grid="".join(f"M{LEFT} {y(share)}H{WIDTH - RIGHT}" for share in (0.0, top / 2, top)),
        texts=tuple(texts),
    )


def _known(*values: np.ndarray | None) -> Iterator[tuple[int, tuple[float, ...]]]:
    """(group, its shares) of what is known."""
    return enumerate(zip(*(part.tolist() for part in values if part is not None), strict=True))


def _path(mark: Callable[..., str], *values: np.ndarray | None) -> str:
    """The marks of all groups, each drawn from its number and its shares."""
    return "".join(mark(i, *shares) for i, shares in _known(*values))


def _inside(share: float, top: float) -> float:
    return float(np.clip(np.nan_to_num(share), 0, top))


def _nice(top: float) -> float:
    """The end of a scale: a round number at or above `top`."""
    power = 10.0 ** np.floor(np.log10(max(top, 1e-6)))
    return float(
        next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= top * (1 - 1e-9))
    )


def _scale(share: float) -> str:
    """A share at a scale's tick."""
    return f"{100 * share:.3g} %" if share else "0"


def _spread(labels: Sequence[str], room: float) -> list[int]:
    """Which labels fit below, evenly spread, the first and the last among them."""
    if not labels:
        return []
    longest = max(min(len(label), 18) for label in labels)
    fit = max(2, min(MOST_TICKS, int(room / (6.6 * longest + 14))))
    return sorted({round(i) for i in np.linspace(0, len(labels) - 1, min(fit, len(labels)))})
