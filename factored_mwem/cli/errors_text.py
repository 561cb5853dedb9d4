"""Errors in words: what `fmwem evaluate` prints. NOT PRIVATE."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from factored_mwem.cli.console import piece

if TYPE_CHECKING:
    from factored_mwem.owner.evaluation.evaluate import Errors
    from factored_mwem.owner.evaluation.value_errors import ColumnErrors, Value

WIDTH = 110
"""Width if the output is not a terminal."""
NARROWEST = 72
"""A narrower terminal breaks the lines itself."""
LONGEST = 24
"""Characters of a value, or of a column's name in the table; the rest is cut off."""
LEAST_SHOWN = 0.0005
"""Share of the real rows from which on a popular value is one."""
EXPLAINED = """\
values, without bins (real/synthetic):
  L1      distance between the shares of exact values, 0 to 2; - where values do not repeat
  KS      Kolmogorov-Smirnov distance of numbers, 0 to 1
  W1/sd   Wasserstein-1 distance of numbers, in real standard deviations
  new     rows with a value that the real table never has
  below   mean; min | 5 25 50 75 95 % | max; the most frequent real values, and the % of rows with them
"""
BINS = {
    "neutral": "bins of an equal share of the real rows, popular numbers alone in theirs",
    "domain": "the codes of the domain that was given",
}


def errors_text(errors: Errors) -> str:
    """All of it, as text that ends with the worst marginals."""
    lines = [
        "NOT PRIVATE: these numbers compare with the real table; do not publish them",
        *(f"note: {piece(note)}" for note in errors.notes),
        *_values(errors.columns),
        *_correlations(errors),
        f"marginals over {BINS[errors.bins]}:",
        "            mean L1   worst L1",
    ]
    lines += [f"{k}-way       {mean:7.4f}    {worst:7.4f}" for k, (mean, worst) in errors.by_order.items()]
    for words, questions, mean, worst in errors.asked:
        lines.append(f"{piece(words)} ({questions:,}): mean {mean:.5f}, worst {worst:.5f}")
    worst_lines = (f"  {error:.4f}  {piece(' x '.join(clique))}" for clique, error in errors.worst)
    return "\n".join([*lines, "worst marginals:", *worst_lines])


def _correlations(errors: Errors) -> list[str]:
    if not errors.correlations:
        return []
    lines = [
        f"  {pair.real:6.3f}  {pair.synthetic:9.3f}  {piece(' x '.join(pair.columns))}"
        for pair in errors.correlations
    ]
    return ["correlations that are the furthest apart:", "    real  synthetic", *lines, ""]


def _values(columns: tuple[ColumnErrors, ...]) -> list[str]:
    """The table of values: a line of distances for each column, and below it what they come from."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("column", "kind", "L1", "KS", "W1/sd", "new %", "missing %"):
        left = name in ("column", "kind")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for column in columns:
        spread = column.spread
        cells = [
            _cut(column.name),
            column.kind,
            _short(column.distance),
            _short(spread.kolmogorov_smirnov if spread else None),
            _short(spread.wasserstein if spread else None),
            _percent(column.unseen),
            "/".join(map(_percent, column.missing)),
        ]
        table.add_row(*map(Text, cells))
    terminal = Console()
    width = max(terminal.width, NARROWEST) if terminal.is_terminal else WIDTH
    file = io.StringIO()
    Console(file=file, width=width, color_system=None, highlight=False).print(table)
    head, *rows = file.getvalue().removesuffix("\n").split("\n")
    lines = [EXPLAINED, head.rstrip()]
    for row, column in zip(rows, columns, strict=True):
        lines += [row.rstrip(), *(part for line in _below(column) for part in _wrapped(line, width))]
    return [*lines, ""]


def _wrapped(line: str, width: int) -> list[str]:
    """A line of details, on as many as it takes; the blank inside a popular value and its share stays."""
    parts = textwrap.wrap(line, width, subsequent_indent=" " * 13, break_on_hyphens=False)
    return [part.replace("\0", " ") for part in parts]


def _below(column: ColumnErrors) -> list[str]:
    lines = []
    if (spread := column.spread) is not None:
        pairs = [[_written(value) for value in pair] for pair in (spread.mean, *spread.quantiles.values())]
        wide = [max(map(len, pair)) for pair in pairs]
        for t, word in enumerate(("real", "synthetic")):
            mean, least, *inner, most = (f"{pair[t]:>{w}}" for pair, w in zip(pairs, wide, strict=True))
            lines.append(f"  {word:9}  mean {mean}; {least} | {' '.join(inner)} | {most}")
    shown = [
        f"{_written(p.value)}: {_percent(p.real)}/{_percent(p.synthetic)}".replace(" ", "\0")
        for p in column.popular
        if p.real >= LEAST_SHOWN
    ]
    return [*lines, f"  popular    {', '.join(shown)}"] if shown else lines


def _written(value: Value) -> str:
    """A value in few characters."""
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, int) and abs(value) < 10**9:
        return str(value)
    return f"{value:.0f}" if 1000 <= abs(value) < 10**9 else f"{value:.4g}"


def _cut(text: str) -> str:
    text = piece(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}.."


def _short(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}" if number < 100 else f"{number:.3g}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
