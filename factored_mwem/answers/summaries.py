"""Summaries: answers that follow from a domain alone, or from counts of all values of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from factored_mwem.answers.answer import FIGURES, Answer, in_dates
from factored_mwem.answers.intervals import Z
from factored_mwem.answers.query import Extreme
from factored_mwem.answers.restriction import step_of
from factored_mwem.answers.weights import column_of
from factored_mwem.domain.attribute import OTHER, Attribute
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, shortened

FROM_DOMAIN = "the end of the column's domain: no noisy answer says how far the rows reach; ask for `{} {}`"
FOUND = "the domain was learnt: values beyond its ends count as those at the ends"
SEEN = (
    "the estimate: values whose counts stand out from their noise; low: those that do so for sure; high: all "
    "that may be there"
)
MANY = "high counts a bin, and what counts as others, as up to as many values as they have rows"
OTHERS = (
    "values that count as `other` are left out: some of them may have as many rows, together up to {:,.0f}"
)


def extreme(query: Extreme, domain: Domain) -> Answer:
    """The end of a column's domain. Raises InputError for a column without an order."""
    column_of(domain, query.column)
    attribute = domain[query.column]
    ordered = placed(attribute)
    name = shortened(query.column)
    if not ordered.any() or attribute.type in ("string", "boolean"):
        raise InputError(f"the values of {name!r} are no numbers or dates: it has no least or greatest")
    low, high = (np.asarray(ends, dtype=np.float64)[ordered] for ends in intervals(attribute))
    end = np.array([high.max() if query.greatest else low.min()])
    unknown = np.full(1, np.nan)
    ends = [unknown, end] if query.greatest else [end, unknown]
    figures = [end, unknown, *([unknown, unknown] if attribute.learnt else ends)]
    if attribute.type in ("date", "datetime"):
        figures = in_dates(figures, attribute.type)
    estimate, stderr, least, most = figures
    told = FROM_DOMAIN.format("p99" if query.greatest else "p1", name)
    notes = (told, *((FOUND,) if attribute.learnt else ()))
    return Answer("", (), ((),), estimate, stderr, least, most, "domain", False, notes)


def distinct(counts: Answer, attribute: Attribute, moved: float) -> Answer:
    """How many of a column's values occur, of the counts of all of them; `moved`: the most records whose
    values are none of the domain's (NaN: nobody knows). A missing value is none.
    """
    known = np.array([label[0] is not None for label in counts.labels])
    several = _values_of_codes(attribute)[known]
    if attribute.other is not None and (attribute.other == OTHER or not moved):
        several[attribute.fallback_code] = np.inf
    estimate, stderr, high = (each[known] for each in (counts.estimate, counts.stderr, counts.high))
    sure = np.array([float((estimate > 2 * Z * stderr).sum())])
    seen = np.array([float((estimate > Z * stderr).sum())])
    rows = np.where(np.isnan(high), np.inf, np.ceil(np.maximum(high, 0.0)))
    most = np.array([float(np.where(several > 1, np.minimum(several, rows), 1.0).sum() + moved)])
    most = np.where(np.isfinite(most), np.floor(most), np.nan)
    error = (most - sure) / (2 * Z)
    basis = "bounded" if counts.basis == "measured" else counts.basis
    notes = (SEEN, *((MANY,) if (several > 1).any() or moved else ()), *counts.notes)
    return replace(
        counts, columns=(), labels=((),), estimate=seen, stderr=error, low=sure, high=most, basis=basis,
        notes=notes,
    )  # fmt: skip


def _values_of_codes(attribute: Attribute) -> np.ndarray:
    """float64[code]: how many values a code may stand for."""
    several = np.ones(attribute.size)
    if not attribute.categorical:
        low, high = (np.asarray(ends, dtype=np.float64) for ends in intervals(attribute))
        step, wide = step_of(attribute), high > low
        several[wide] = np.inf if step is None else np.rint((high - low)[wide] / step) + 1
    return several


def top(counts: Answer, number: int, others: Sequence[bool]) -> Answer:
    """The largest of some groups, the largest first; `others`: of each column whether values that have no
    code of their own count as `other`. Its groups are left out.
    """
    apart = np.array([(OTHER, True) in zip(label, others, strict=True) for label in counts.labels])
    order = np.argsort(np.where(apart, np.inf, -counts.estimate), kind="stable")
    order = order[: min(number, int((~apart).sum()))]
    figures = {name: getattr(counts, name)[order] for name in FIGURES}
    labels = tuple(counts.labels[i] for i in order.tolist())
    notes, rest = counts.notes, float(np.maximum(counts.high, 0.0)[apart].sum())
    if apart.any():
        notes = (OTHERS.format(rest), *notes)
    return replace(counts, labels=labels, notes=notes, **figures)
