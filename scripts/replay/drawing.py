"""How the figures are drawn: panels that are shown one by one, each with its key below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from replay.figure import Row, mean

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


def line(
    axis: Any,
    at: Mapping[Any, list[Row]],
    of: str | Callable[[list[Row]], float],
    fmt: str = "-",
    *,
    band: bool = False,
    **style: Any,
) -> list[float]:
    """A line through the mean of a column, or what `of` makes of the rows, at each x; a gap where that is
    infinite. `band`: one standard deviation of the column is shaded. Returns it.
    """
    ys = [mean(rows, of) if isinstance(of, str) else of(rows) for rows in at.values()]
    (drawn,) = axis.plot(list(at), np.where(np.isfinite(ys), ys, np.nan), fmt, **style)
    if band:
        spread = np.array([np.std([row[of] for row in rows]) for rows in at.values()])
        ends, shade = (ys - spread, ys + spread), {"color": drawn.get_color(), "alpha": 0.15, "linewidth": 0}
        axis.fill_between(list(at), *ends, **shade)
    return ys


def frame(
    axis: Any, ticks: Sequence[float] = (), fmt: str = "{:g}", *, keyed: Row | None = None, **settings: Any
) -> None:
    """The settings of a panel, its only marks on x, and its key as `keyed` has it."""
    axis.set(**settings)
    if len(ticks):
        axis.set_xticks(ticks, [fmt.format(x) for x in ticks])
        axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    key(axis, **keyed or {})


def key(
    axis: Any, signs: Mapping[str, Row] | None = None, *, columns: int = 2, lines_below: float = 2.0
) -> None:
    """What the lines of a panel are, below it and never over a curve: its labels, or `signs`, text -> style
    of a line; in one column where more would be wider than the panel. `lines_below`: of text between the
    axis and the key (ticks and label).
    """
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=text, **style) for text, style in (signs or {}).items()]
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "borderaxespad": 1.9 * lines_below}
    looks = {"fontsize": 9, "frameon": False, "handlelength": 2.2, "columnspacing": 1.2}
    drawn = axis.get_figure()
    for number in dict.fromkeys((columns, 1)):
        shown = handles or axis.get_legend_handles_labels()[0]
        legend = axis.legend(handles=shown, ncols=number, **below, **looks)
        if legend.get_window_extent(drawn.canvas.get_renderer()).width <= 0.95 * PANEL * drawn.dpi:
            break


def panels(path: Path) -> list[Path]:
    """The files of a figure's panels that `save` wrote beside it, in reading order."""
    files = path.parent.glob(f"{path.stem}-*.png")
    return sorted(files, key=lambda file: int(file.stem.rpartition("-")[2]))


def save(drawn: Any, path: Path) -> None:
    """The whole figure, and each of its panels with its key: NAME.png, NAME-1.png, NAME-2.png, ...

    A page shows the panels side by side or one below the other, so that their text stays readable.
    """
    from matplotlib import pyplot
    from matplotlib.transforms import Bbox

    if drawn.legends:
        raise ValueError("a key belongs to its panel, which is shown alone: use key(axis)")
    for old in panels(path):
        old.unlink()
    make_room(drawn)
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    boxes, inches = {path: drawn.bbox_inches}, drawn.dpi_scale_trans.inverted()
    for number, axis in enumerate(drawn.axes, start=1):
        (x0, y0), (x1, y1) = axis.get_tightbbox(drawn.canvas.get_renderer()).transformed(inches).get_points()
        box = Bbox([[x0 - 0.05, y0 - 0.15], [x1 + 0.05, y1 + 0.05]])
        boxes[path.with_name(f"{path.stem}-{number}.png")] = box
    for file, box in boxes.items():
        place = (drawn.dpi_scale_trans - drawn.transFigure).transform((box.x1 - 0.03, box.y0 + 0.02))
        stamp = {"ha": "right", "va": "bottom", "fontsize": 7, "color": "gray"}
        corner = drawn.text(*place, "NOT PRIVATE", **stamp)
        drawn.savefig(file, dpi=DENSITY, bbox_inches=box)
        corner.remove()
    pyplot.close(drawn)


def make_room(drawn: Any) -> None:
    """A figure grows by the keys of its rows, so that they take nothing off the panels; only then are these
    laid out.
    """
    tallest: dict[int, float] = {}
    for axis in drawn.axes:
        if legend := axis.get_legend():
            size = legend.get_window_extent(drawn.canvas.get_renderer())
            row = axis.get_subplotspec().rowspan.start
            tallest[row] = max(tallest.get(row, 0.0), size.height / drawn.dpi)
    width, height = drawn.get_size_inches()
    drawn.set_size_inches(width, height + sum(tallest.values()))
    drawn.set_layout_engine("constrained", h_pad=0.15, w_pad=0.08)
