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
    """A figure of panels, and their axes in reading order, drawn without a display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams |= {"font.size": 10, "axes.titlesize": 10, "lines.linewidth": 1.6}
    drawn = pyplot.figure(figsize=(PANEL * columns, 0.8 * PANEL * rows), layout="constrained")
    drawn.get_layout_engine().set(h_pad=0.12)
    panels = drawn.subfigures(rows, columns, squeeze=False).flat
    return drawn, [panel.subplots() for panel in panels]


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


def key(axis: Any, signs: Mapping[str, Row] | None = None, *, columns: int = 2) -> None:
    """What the lines of a panel are, below it: its labels, or `signs`, text -> style of a line; in one column
    where more would be wider than the panel.
    """
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=text, **style) for text, style in (signs or {}).items()]
    looks = {"fontsize": 9, "frameon": False, "handlelength": 2.2, "columnspacing": 1.2}
    panel = axis.get_figure(root=False)
    for number in dict.fromkeys((columns, 1)):
        for old in panel.legends:
            old.remove()
        shown = handles or axis.get_legend_handles_labels()[0]
        panel.legend(handles=shown, ncols=number, loc="outside lower center", **looks)
        if size_of(panel)[0] <= 0.95 * PANEL:
            break


def size_of(panel: Any) -> tuple[float, float]:
    """Inches of a panel's key, across and down."""
    drawn = panel.get_figure(root=True)
    box = panel.legends[0].get_window_extent(drawn.canvas.get_renderer()) if panel.legends else None
    return (box.width / drawn.dpi, box.height / drawn.dpi) if box else (0.0, 0.0)


def save(drawn: Any, path: Path) -> list[Path]:
    """The whole figure, and each of its panels with its key: NAME.png, NAME-1.png, NAME-2.png, ... Returns
    the panels' files.

    A page shows the panels side by side or one below the other, so that their text stays readable.
    """
    from matplotlib import pyplot

    if drawn.legends:
        raise ValueError("a key belongs to its panel, which is shown alone: use key(axis)")
    for old in path.parent.glob(f"{path.stem}-*.png"):
        old.unlink()
    make_room(drawn)
    boxes = {path: drawn.bbox_inches}
    for number, panel in enumerate(drawn.subfigs, start=1):
        panel.text(0.99, 0.005, "NOT PRIVATE", ha="right", va="bottom", fontsize=7, color="gray")
        boxes[path.with_name(f"{path.stem}-{number}.png")] = panel.bbox.transformed(
            drawn.dpi_scale_trans.inverted()
        )
    for file, box in boxes.items():
        drawn.savefig(file, dpi=DENSITY, bbox_inches=box)
    pyplot.close(drawn)
    return [*boxes][1:]


def make_room(drawn: Any) -> None:
    """A figure grows by its keys, so that they take nothing off the panels."""
    width, height = drawn.get_size_inches()
    rows = round(height / (0.8 * PANEL))
    drawn.set_size_inches(width, height + rows * max(size_of(panel)[1] for panel in drawn.subfigs))
