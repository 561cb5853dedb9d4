"""What a figure of the replay is: a module of this folder that holds

    TITLE: str                                    one line
    SETTINGS: str                                 what was fixed, and what the paper leaves open and was
                                                  chosen here
    cases(full: bool) -> list[dict]               units of work as JSON-able parameters; each can run alone,
                                                  in any order, in any process
    run(case: dict) -> list[dict]                 tidy rows (str, int, float) of a case; the seeds are
                                                  inside, so the same case gives the same rows
    plot(rows: list[dict], path: Path) -> None    a PNG with the paper's axes; may be left out
    judge(rows: list[dict]) -> list[Claim]        the paper's claims, each marked from the rows alone
    tables(rows: list[dict]) -> list[Table]       numbers to show beside the plot; may be left out
    SOURCE: str                                   whose claims those of the paper are; HLM where left out

and is found by its name. `run` raises InputError where a data set is not there; its message says in one line
where to get it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be compared"
PAPER, PROJECT = "paper", "project"
HLM = "Experiments of Hardt, Ligett and McSherry"
BESIDE = "Counts and theorems of Hardt, Ligett and McSherry (Table 1, Theorem 2.3)"
GRU = "Theorems of Gupta, Roth and Ullman"
"""Sources, each of whose claims the page counts apart."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper or of the project (`whose`), its mark (HOLDS, FAILS or OPEN), and the numbers
    that decided.
    """

    text: str
    verdict: str
    why: str
    whose: str = PAPER


class Table(NamedTuple):
    """A table beside a figure: cells as they are shown."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def mark(true: bool) -> str:
    return HOLDS if true else FAILS


def pick(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def values(rows: Iterable[Row], key: str) -> list[Any]:
    """The different values of a column, sorted."""
    return sorted({row[key] for row in rows if key in row})


def mean(rows: Iterable[Row], key: str) -> float:
    """nan where there is no row."""
    found = [row[key] for row in rows]
    return float(np.mean(found)) if found else float("nan")


def band(
    axis: Any,
    xs: Sequence[float],
    rows_at: Callable[[float], list[Row]],
    key: str,
    fmt: str = "-",
    **style: Any,
) -> None:
    """A line of means with one standard deviation shaded around it."""
    runs = [np.array([row[key] for row in rows_at(x)], dtype=np.float64) for x in xs]
    middle, spread = np.array([r.mean() for r in runs]), np.array([r.std() for r in runs])
    (line,) = axis.plot(xs, middle, fmt, **style)
    axis.fill_between(xs, middle - spread, middle + spread, color=line.get_color(), alpha=0.15, linewidth=0)


DENSITY, PANEL = 220, 4.2
"""Dots per inch, and inches across: a panel is shown at up to 460 CSS pixels, twice as dense as it is wide.
"""


def canvas(columns: int, rows: int = 1) -> tuple[Any, list[Any]]:
    """A figure and its axes in reading order, drawn without a display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams |= {"font.size": 10, "axes.titlesize": 10, "lines.linewidth": 1.6}
    drawn, axes = pyplot.subplots(rows, columns, figsize=(PANEL * columns, 0.8 * PANEL * rows), squeeze=False)
    return drawn, list(axes.flat)


def key(
    axis: Any, signs: Mapping[str, Row] | None = None, *, columns: int = 2, lines_below: float = 2.0
) -> None:
    """What the lines of a panel are, below it and never over a curve: its labels, or `signs`, text -> style
    of a line; in one column where more would be wider than the panel. `lines_below`: of text between the
    axis and the key (ticks and label).
    """
    from matplotlib.lines import Line2D

    own = axis.get_legend_handles_labels()[0]
    made = axis.legend(
        handles=[Line2D([], [], label=text, **style) for text, style in signs.items()] if signs else own,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        borderaxespad=1.9 * lines_below,
        ncols=columns,
        fontsize=9,
        frameon=False,
        handlelength=2.2,
        columnspacing=1.2,
    )
    drawn = axis.get_figure()
    if columns > 1 and made.get_window_extent(drawn.canvas.get_renderer()).width > 0.95 * PANEL * drawn.dpi:
        key(axis, signs, columns=1, lines_below=lines_below)


def panels(path: Path) -> list[Path]:
    """The files of a figure's panels that `save` wrote beside it, in reading order."""
    found = path.parent.glob(f"{path.stem}-*.png")
    return sorted(found, key=lambda file: int(file.stem.rpartition("-")[2]))


def save(drawn: Any, path: Path) -> None:
    """The whole figure, and each of its panels with its key: NAME.png, NAME-1.png, NAME-2.png, ...

    A page shows the panels side by side or one below the other, so that their text stays readable.
    """
    from matplotlib import pyplot
    from matplotlib.transforms import Bbox

    if drawn.legends:
        raise ValueError("a key belongs to its panel, which is shown alone: use key(axis)")
    _make_room(drawn)
    for old in panels(path):
        old.unlink()
    stamp = {"ha": "right", "va": "bottom", "fontsize": 7, "color": "gray"}
    corner = drawn.text(0.998, 0.002, "NOT PRIVATE", **stamp)
    drawn.savefig(path, dpi=DENSITY)
    corner.remove()
    drawn.set_layout_engine("none")
    inches = drawn.dpi_scale_trans.inverted()
    for number, axis in enumerate(drawn.axes, start=1):
        around = axis.get_tightbbox(drawn.canvas.get_renderer()).transformed(inches)
        box = Bbox([[around.x0 - 0.05, around.y0 - 0.15], [around.x1 + 0.05, around.y1 + 0.05]])
        place = (drawn.dpi_scale_trans - drawn.transFigure).transform((box.x1 - 0.03, box.y0 + 0.02))
        corner = drawn.text(*place, "NOT PRIVATE", **stamp)
        drawn.savefig(path.with_name(f"{path.stem}-{number}.png"), dpi=DENSITY, bbox_inches=box)
        corner.remove()
    pyplot.close(drawn)


def _make_room(drawn: Any) -> None:
    """A figure grows by the keys of its rows, so that they take nothing off the panels; only then are these
    laid out.
    """
    tallest: dict[int, float] = {}
    for axis in drawn.axes:
        if legend := axis.get_legend():
            row, size = (
                axis.get_subplotspec().rowspan.start,
                legend.get_window_extent(drawn.canvas.get_renderer()),
            )
            tallest[row] = max(tallest.get(row, 0.0), size.height / drawn.dpi)
    width, height = drawn.get_size_inches()
    drawn.set_size_inches(width, height + sum(tallest.values()))
    drawn.set_layout_engine("constrained", h_pad=0.15, w_pad=0.08)
