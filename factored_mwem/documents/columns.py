"""Columns: the part of a page about each column: its declared or learnt values, and their shares in the rows
beside the noisy answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from factored_mwem.answers.intervals import MeasuredBasis, Sums, half_width
from factored_mwem.answers.least_squares import least_squares
from factored_mwem.answers.projections import Noisy
from factored_mwem.answers.terms import QueryTerms
from factored_mwem.documents.charts import Chart, Series, across, upright
from factored_mwem.documents.groups import Groups, groups_at, groups_of
from factored_mwem.documents.material import Material
from factored_mwem.documents.page import NOTHING, counted, fixed, percent, plain
from factored_mwem.domain.attribute import ROWS_OF_PERSON, Attribute
from factored_mwem.domain.levels import Levels
from factored_mwem.mechanisms.hidden_spread import MOST
from factored_mwem.pipeline.record.manifest import AttributeFacts

UPRIGHT = 9
"""From this many bins on, bars stand beside each other, not below each other."""


class OneWay(NamedTuple):
    """float64[group]: `estimate` of the records of each group, and the bounds of its 95 % interval."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def columns_of(material: Material) -> list[dict[str, Any]]:
    """The facts of every column, in the order of the table: `fates` are kept, clipped, other, missing, and
    the doubtful and the hidden spread of a learnt one; `rows`: of each group its label, share of the rows,
    estimate, and the ends of its interval.
    """
    noisy = None
    if (
        material.release is not None and material.manifest.people is None
    ):  # otherwise the noise is on people, not rows
        noisy = Noisy.of(material.release.evidence)
    return [_column(material, facts, noisy) for facts in material.manifest.columns]


def _column(material: Material, facts: AttributeFacts, answers: Noisy | None) -> dict[str, Any]:
    attribute, at = material.domain[facts.name], material.position(facts.name)
    model = None if material.release is None or at is None else material.release.model
    counts = None if material.rows is None else material.rows.counts[facts.name]
    groups, noisy = groups_of(attribute, counts), None
    if model is not None and at is not None and answers is not None:
        groups = groups_of(attribute, model.marginal((at,)))
        for choice in (groups, *_coarser(attribute, model.levels, at)):
            estimate = one_way(answers, at, choice)
            if estimate is not None:
                groups, noisy = choice, OneWay(*(part / model.total for part in estimate))
                break
    shares = None if counts is None else groups.added(counts) / max(int(counts.sum()), 1)
    series = Series(shares, *(noisy or (None, None, None)))
    fates = facts.kept, facts.clipped, facts.other, facts.missing
    shown = [*map(percent, (*fates, facts.spread_doubtful, facts.spread_hidden))]
    if (facts.spread_hidden or 0.0) >= MOST:
        shown[-1] = "unknown"
    return {
        "name": plain(facts.name),
        "about": _about(facts),
        "described": plain(attribute.title or attribute.description or "", 300),
        "fates": None if facts.kept is None else tuple(shown),
        "note": _note(facts.name, groups.note),
        "chart": None if shares is None and noisy is None else drawn(groups, series),
        "of": "people" if facts.name == ROWS_OF_PERSON else "rows",
        "rows": _table(groups, series),
        "measured": noisy is not None,
        "in_words": _in_words(facts.name, groups, series),
    }


def _note(name: str, note: str) -> str:
    of_people = "shares of people, by how many rows each has" if name == ROWS_OF_PERSON else ""
    return "; ".join(text for text in (of_people, note) if text)


def _coarser(attribute: Attribute, levels: Levels, at: int) -> Iterator[Groups]:
    """The coarser levels of a column, from fine to coarse; of some learnt columns noisy answers determine
    only these.
    """
    groups = (groups_at(attribute, levels.groups[variable]) for variable in levels.chains[at][1:])
    return (each for each in groups if each is not None)


def _about(facts: AttributeFacts) -> str:
    kind = {"integer": "whole numbers", "number": "numbers", "string": "text", "boolean": "true or false"}
    words = [
        kind.get(facts.type, plain(facts.type)),
        counted(facts.codes, "code"),
        "values learnt inside the budget" if facts.domain == "learnt" else "values declared",
    ]
    return ", ".join([*words, *(["may be missing"] if facts.nullable else [])])


def one_way(noisy: Noisy, position: int, groups: Groups) -> OneWay | None:
    """The least-squares estimates for an attribute from all noisy answers, which do not depend on the model;
    None if they do not determine its values.
    """
    count = len(groups)
    estimate = least_squares(noisy, QueryTerms((position,), (groups.weights,), count))
    if estimate is None:
        return None
    each = Sums(np.arange(count)[:, None], np.ones((count, 1)))
    half = half_width(MeasuredBasis([estimate]).spread(each))
    return OneWay(estimate.values, estimate.values - half, estimate.values + half)


def drawn(groups: Groups, series: Series) -> Chart:
    """Many bins stand beside each other, other groups below each other."""
    return (upright if groups.scaled >= UPRIGHT else across)(groups.labels, series)


def _table(groups: Groups, series: Series) -> tuple[tuple[str, ...], ...]:
    parts = (series.bars, series.dots, series.low, series.high)
    return tuple(
        (label, *(NOTHING if part is None else fixed(100 * float(part[i]), 2) for part in parts))
        for i, label in enumerate(groups.labels)
    )


def _in_words(name: str, groups: Groups, series: Series) -> str:
    """The picture in words, for people who cannot see it."""
    what = series.bars if series.bars is not None else series.dots
    if what is None or not len(what):
        return ""
    first = np.argsort(-what, kind="stable")[:3]
    most = ", ".join(f"{groups.labels[i]} {percent(float(what[i]))}" for i in first)
    return f"Shares of the values of {plain(name)}; the most frequent: {most}"
