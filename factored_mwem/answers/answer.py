"""Answer: estimates of a query with their errors, as a person or a program reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from factored_mwem.errors import shortened
from factored_mwem.tables.codes.decode import Label, label_text

LEVEL = 0.95
"""The nominal coverage of intervals."""
SHOWN = 8
"""Groups that the text of an answer shows."""
FIGURES = ("estimate", "stderr", "low", "high")
BASES = {
    "measured": "measured: it follows from noisy answers alone, whatever the model says",
    "bounded": "bounded: as measured, and the interval covers what the domain leaves open: see the notes",
    "domain": "domain: read off the domain; nothing that was measured says more",
    "model": "model: nothing measured fixes it; it holds as far as the model does, and so does the interval",
}
ERRORS = {
    True: "of those whom the rows are a sample of: noise, and sampling error",
    False: "of the table's own rows: noise alone, no sampling error",
}
UNKNOWN = "-"
"""Stands for an unknown error."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answer:
    """The answer of a release to a query, group by group, with error bars.

    `estimate`, its standard error `stderr`, and an interval from `low` to `high` that holds the truth with
    probability `level`: float64[group] each; of quantiles of dates and moments datetime64, `stderr` in days.
    Estimates that were measured are unbiased: noise takes some that are near 0 below it.

    `basis`: "measured" if noisy answers alone determine the answer, so that it does not depend on the model;
    "bounded" if they do but for where rows lie in their bins, or for values that are none of the domain's;
    "domain" if it is an end of the domain; "model" if it depends on the model. `population`: whether the
    error is about the population of which the table's rows are a sample, or about the rows themselves.
    `labels[i]` are group i's, by `columns`; None is a missing value.

    >>> import pyarrow as pa
    >>> from factored_mwem import release
    >>> people = pa.table({"sex": ["F", "M"] * 500, "smokes": [0, 0, 1, 0] * 250})
    >>> synthetic = release(people, 2, domain={"fields": [
    ...     {"name": "sex", "categories": ["F", "M"], "constraints": {"required": True}},
    ...     {"name": "smokes", "type": "integer", "categories": [0, 1], "constraints": {"required": True}}]})
    >>> answer = synthetic.answer("share where smokes = 1 by sex")
    >>> answer.columns, answer.labels, answer.basis
    (('sex',), (('F',), ('M',)), 'measured')
    >>> bool(answer.low[0] < answer.estimate[0] < answer.high[0])
    True
    """

    query: str
    columns: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]
    estimate: np.ndarray
    stderr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    basis: Literal["measured", "bounded", "domain", "model"]
    population: bool
    notes: tuple[str, ...] = ()
    level: float = LEVEL

    def __len__(self) -> int:
        return len(self.estimate)

    def __repr__(self) -> str:
        return self.text(SHOWN)

    def text(self, most: int | None = None) -> str:
        """A table of all groups, or of the first `most`, and what it rests on."""
        words = [f"answer: {_one_line(self.query, 100)}", f"  {BASES[self.basis]}"]
        if self.basis != "domain":
            words.append(f"  {self.level:.0%} intervals {ERRORS[self.population]}")
        words += self.table(most)
        return "\n".join([*words, *(f"  note: {_one_line(note, 160)}" for note in self.notes)])

    def table(self, most: int | None = None) -> list[str]:
        """Lines of labels and right-aligned figures; the digits that the errors leave sensible."""
        count = len(self) if most is None else min(len(self), most)
        heads = [shortened(name) for name in self.columns]
        columns = [[label_text(row[j]) for row in self.labels[:count]] for j in range(len(heads))]
        columns += [self._figures(name)[:count] for name in FIGURES]
        heads += FIGURES
        widths = [max(map(len, [head, *cells])) for head, cells in zip(heads, columns, strict=True)]
        left = len(self.columns)
        lines = []
        for row in [heads, *zip(*columns, strict=True)]:
            cells = [
                text.ljust(width) if j < left else text.rjust(width)
                for j, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append(f"  {'  '.join(cells)}".rstrip())
        more = len(self) - count
        return [*lines, f"  ... and {more:,} more"] if more else lines

    def _figures(self, name: str) -> list[str]:
        values = getattr(self, name)
        if values.dtype.kind == "M":
            return [UNKNOWN if np.isnat(v) else str(v) for v in values]
        digits = self._digits(self.estimate.dtype.kind == "M")
        return [f"{v:,.{digits}f}" if math.isfinite(v) else UNKNOWN for v in values.tolist()]

    def _digits(self, moments: bool) -> int:
        """Decimals that show two digits of the least standard error."""
        errors = self.stderr[np.isfinite(self.stderr) & (self.stderr > 0)]
        if not len(errors) and moments:
            return 1
        if not len(errors):
            plain = self.estimate[np.isfinite(self.estimate)]
            whole = next((d for d in range(5) if (np.round(plain, d) == plain).all()), None)
            return whole if whole is not None else 1 if np.abs(plain).max() > 10 else 4
        return int(np.clip(1 - math.floor(math.log10(float(errors.min()))), 0, 6))

    def to_dict(self) -> dict[str, Any]:
        """The answer for JSON: numbers, texts and null for what is not known."""
        groups = []
        for i, labels in enumerate(self.labels):
            figures = {name: _plain(getattr(self, name)[i]) for name in FIGURES}
            groups.append({"labels": list(labels), **figures})
        return {
            "query": self.query,
            "basis": self.basis,
            "population": self.population,
            "level": self.level,
            "columns": list(self.columns),
            "groups": groups,
            "notes": list(self.notes),
        }

    def to_pandas(self) -> Any:
        """A pandas frame of estimate, stderr, low and high, indexed by the labels of all groups."""
        import pandas as pd

        figures = {name: getattr(self, name) for name in FIGURES}
        if not self.columns:
            return pd.DataFrame(figures)
        return pd.DataFrame(figures, index=pd.MultiIndex.from_tuples(self.labels, names=self.columns))


def _one_line(text: str, most: int) -> str:
    """A text from any source on one line, without characters that control a terminal."""
    plain = text if text.isprintable() else ascii(text)[1:-1]
    return plain if len(plain) <= most else plain[: most - 3] + "..."


def _plain(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    return float(value) if math.isfinite(value) else None


def in_dates(figures: Sequence[np.ndarray], type_: str) -> list[np.ndarray]:
    """(estimate, stderr, low, high) of days or microseconds since 1970 as datetime64 and days."""
    unit, day = ("D", 1.0) if type_ == "date" else ("us", 86_400e6)
    dates = []
    for name, values in zip(FIGURES, figures, strict=True):
        if name == "stderr":
            dates.append(values / day)
            continue
        known = np.isfinite(values)
        whole = np.rint(np.where(known, values, 0)).astype(np.int64).astype(f"datetime64[{unit}]")
        whole = whole.astype("datetime64[s]") if type_ == "datetime" else whole
        whole[~known] = np.datetime64("NaT")
        dates.append(whole)
    return dates
