"""Errors in words: what `fmwem evaluate` prints. NOT PRIVATE."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.console import Console

from factored_mwem.cli.console import aligned, piece
from factored_mwem.cli.people_text import people_text

if TYPE_CHECKING:
    from factored_mwem.owner.evaluation.evaluate import Errors
    from factored_mwem.owner.evaluation.value_errors import ColumnErrors, Value

WIDTH, NARROWEST = 110, 72
"""Width if the output is not a terminal; a terminal that is narrower than this breaks the lines itself."""
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
    "neutral": "bins with equal shares of the real rows; each popular number has a bin of its own",
    "domain": "the codes of the domain that --domain names",
}


def errors_text(errors: Errors) -> str:
    """All of it, as text that ends with the worst marginals."""
    means = [(f"{k}-way", f"{mean:.4f}", f"{worst:.4f}") for k, (mean, worst) in errors.by_order.items()]
    return "\n".join(
        [
            "NOT PRIVATE: these numbers compare with the real table; do not publish them",
            *(f"note: {piece(note)}" for note in errors.notes),
            *_values(errors.columns),
            *_correlations(errors),
            *(people_text(errors.people) if errors.people is not None else []),
            f"marginals over {BINS[errors.bins]}:",
            *aligned([("", "mean L1", "worst L1"), *means]),
            *(
                f"{piece(words)} ({questions:,}): mean {mean:.5f}, worst {worst:.5f}"
                for words, questions, mean, worst in errors.asked
            ),
            "worst marginals:",
            *(f"  {error:.4f}  {piece(' x '.join(clique))}" for clique, error in errors.worst),
        ]
    )


def _correlations(errors: Errors) -> list[str]:
    if not errors.correlations:
        return []
    pairs = [
        (f"  {pair.real:.3f}", f"{pair.synthetic:.3f}", piece(" x ".join(pair.columns)))
        for pair in errors.correlations
    ]
    head = "correlations that are the furthest apart:"
    return [head, *aligned([("real", "synthetic", ""), *pairs], left=(2,)), ""]


def _values(columns: tuple[ColumnErrors, ...]) -> list[str]:
    """The table of values: a line of distances for each column, and below it what they come from."""
    rows = [
        (
            _cut(column.name),
            column.kind,
            _short(column.distance),
            _short(column.spread.kolmogorov_smirnov if column.spread else None),
            _short(column.spread.wasserstein if column.spread else None),
            _percent(column.unseen),
            "/".join(map(_percent, column.missing)),
        )
        for column in columns
    ]
    names = ("column", "kind", "L1", "KS", "W1/sd", "new %", "missing %")
    head, *lines = aligned([names, *rows], left=(0, 1))
    terminal = Console()
    width = max(terminal.width, NARROWEST) if terminal.is_terminal else WIDTH
    below = [[part for line in _below(column) for part in _wrapped(line, width)] for column in columns]
    entries = (entry for line, more in zip(lines, below, strict=True) for entry in (line, *more))
    return [EXPLAINED, head, *entries, ""]


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
