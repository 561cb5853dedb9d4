"""What a figure of the replay is: a module of this folder that holds

    TITLE: str                                    one line
    SETTINGS: str                                 what was fixed, and what the paper leaves open and was
                                                  chosen here
    cases(full: bool) -> list[dict]               units of work as JSON-able parameters; each can run alone,
                                                  in any order, in any process
    run(case: dict) -> list[dict]                 tidy rows (str, int, float) of a case; the seeds are
                                                  inside, so the same case gives the same rows
    plot(rows: list[dict], path: Path) -> None    a PNG with the paper's axes
    judge(rows: list[dict]) -> list[Claim]        the paper's claims, each marked from the rows alone
    tables(rows: list[dict]) -> list[Table]       numbers to show beside the plot; may be left out

and is found by its name. `run` raises InputError where a data set is not there; its message says in one line
where to get it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be compared"
PAPER, PROJECT = "paper", "project"

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


def canvas(columns: int, rows: int = 1) -> tuple[Any, list[Any]]:
    """A figure and its axes in reading order, drawn without a display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn, axes = pyplot.subplots(
        rows, columns, figsize=(4.2 * columns, 3.4 * rows), squeeze=False, layout="constrained"
    )
    return drawn, list(axes.flat)


def save(drawn: Any, path: Path) -> None:
    from matplotlib import pyplot

    drawn.text(0.995, 0.005, "NOT PRIVATE", ha="right", va="bottom", fontsize=6, color="gray")
    drawn.savefig(path, dpi=110)
    pyplot.close(drawn)
