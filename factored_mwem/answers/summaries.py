"""Summaries: answers that follow from a domain alone, or from counts of all values of a column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from factored_mwem.answers.answer import Answer, in_dates
from factored_mwem.answers.intervals import Z
from factored_mwem.answers.query import Extreme
from factored_mwem.answers.weights import column_of
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, shortened

FROM_DOMAIN = "the end of the column's domain: no noisy answer says how far the rows reach; ask for `p99 {}`"
SEEN = (
    "the estimate: values whose counts stand out from their noise; low: those that do so for sure; high: all "
    "of the domain"
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
    figures = [end, unknown, unknown, end] if query.greatest else [end, unknown, end, unknown]
    if attribute.type in ("date", "datetime"):
        figures = in_dates(figures, attribute.type)
    estimate, stderr, least, most = figures
    note = FROM_DOMAIN.format(name)
    return Answer("", (), ((),), estimate, stderr, least, most, "domain", False, (note,))


def distinct(counts: Answer) -> Answer:
    """How many of a column's values occur, of the counts of all of them."""
    sure = np.array([float((counts.estimate > 2 * Z * counts.stderr).sum())])
    seen = np.array([float((counts.estimate > Z * counts.stderr).sum())])
    most = np.array([float(len(counts))])
    error = (most - sure) / (2 * Z)
    basis = "bounded" if counts.basis == "measured" else counts.basis
    notes = (SEEN, *counts.notes)
    return replace(
        counts, columns=(), labels=((),), estimate=seen, stderr=error, low=sure, high=most, basis=basis,
        notes=notes,
    )  # fmt: skip


def top(counts: Answer, number: int) -> Answer:
    """The largest of some groups, the largest first."""
    order = np.argsort(-counts.estimate, kind="stable")[:number]
    figures = {name: getattr(counts, name)[order] for name in ("estimate", "stderr", "low", "high")}
    labels = tuple(counts.labels[i] for i in order.tolist())
    return replace(counts, labels=labels, **figures)
