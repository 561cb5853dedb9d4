"""Columns: what a page shows of each: what was assumed of it, and its values in the rows beside the noisy
answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from factored_mwem.answers.looks import Noisy
from factored_mwem.documents.charts import Chart, Series, across, upright
from factored_mwem.documents.groups import Groups, groups_at, groups_of
from factored_mwem.documents.material import Material
from factored_mwem.documents.one_way import OneWay, one_way
from factored_mwem.documents.wording import NOTHING, counted, fixed, percent, plain
from factored_mwem.pipeline.manifest import AttributeFacts

UPRIGHT = 9
"""Bins from which on they stand beside each other."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column of the table: `fates` are kept, clipped, other, missing of a learnt one. `rows`: of each group
    its label, share of the rows, estimate, and the ends of its interval.
    """

    name: str
    about: str
    described: str
    learnt: bool
    fates: tuple[str, ...] | None
    codes: str
    said: str
    chart: Chart | None
    rows: tuple[tuple[str, ...], ...]
    measured: bool
    seen: str


def columns_of(material: Material) -> list[ColumnFacts]:
    """The facts of every column, in the order of the table."""
    noisy = None if material.made is None else Noisy.of(material.made.evidence)
    return [_column(material, facts, noisy) for facts in material.manifest.attributes]


def _column(material: Material, facts: AttributeFacts, answers: Noisy | None) -> ColumnFacts:
    attribute = material.domain[facts.name]
    counts = None if material.rows is None else material.rows.counts[facts.name]
    believed = _believed(material, facts.name)
    groups = groups_of(attribute, believed if believed is not None else counts)
    noisy = None if answers is None else _noisy(material, facts.name, groups, answers)
    for coarser in _levels(material, facts.name) if noisy is None else ():
        noisy = None if answers is None else _noisy(material, facts.name, coarser, answers)
        if noisy is not None:
            groups = coarser
            break
    shares = None if counts is None else groups.added(counts) / max(int(counts.sum()), 1)
    series = Series(shares, *(noisy or (None, None, None)))
    fates = (facts.kept, facts.clipped, facts.other, facts.missing)
    return ColumnFacts(
        name=plain(facts.name),
        about=_about(facts),
        described=plain(attribute.title or attribute.description or "", 300),
        learnt=facts.domain == "learnt",
        fates=None if facts.kept is None else tuple(percent(fate) for fate in fates),
        codes=f"{facts.codes:,}",
        said=groups.said,
        chart=None if shares is None and noisy is None else _drawn(groups, series),
        rows=_table(groups, series),
        measured=noisy is not None,
        seen=_seen(facts.name, groups, series),
    )


def _about(facts: AttributeFacts) -> str:
    kind = {"integer": "whole numbers", "number": "numbers", "string": "text", "boolean": "true or false"}
    words = [
        kind.get(facts.type, plain(facts.type)),
        counted(facts.codes, "code"),
        "values learnt inside the budget" if facts.domain == "learnt" else "values declared",
    ]
    return ", ".join([*words, *(["may be missing"] if facts.nullable else [])])


def _levels(material: Material, name: str) -> Iterator[Groups]:
    """The coarser levels of a column, from fine to coarse: some of a learnt one are all that noisy answers
    fix, for those that its codes follow from are left out.
    """
    if material.made is None or name in material.domain.derived:
        return
    levels = material.made.model.levels
    for variable in levels.chains[material.domain.modelled.names.index(name)][1:]:
        found = groups_at(material.domain[name], levels.groups[variable])
        if found is not None:
            yield found


def _believed(material: Material, name: str) -> np.ndarray | None:
    """float64[code]: the model's own counts, where the column is one that it has."""
    if material.made is None or name in material.domain.derived:
        return None
    return material.made.model.marginal((material.domain.modelled.names.index(name),))


def _noisy(material: Material, name: str, groups: Groups, answers: Noisy) -> OneWay | None:
    """Shares of all records, by the noisy answers."""
    if material.made is None or name in material.domain.derived:
        return None
    found = one_way(answers, material.domain.modelled.names.index(name), groups)
    return None if found is None else OneWay(*(part / material.made.model.total for part in found))


def _drawn(groups: Groups, series: Series) -> Chart:
    return (upright if groups.scaled >= UPRIGHT else across)(groups.labels, series)


def _table(groups: Groups, series: Series) -> tuple[tuple[str, ...], ...]:
    parts = (series.bars, series.dots, series.low, series.high)
    return tuple(
        (label, *(NOTHING if part is None else fixed(100 * float(part[i]), 2) for part in parts))
        for i, label in enumerate(groups.labels)
    )


def _seen(name: str, groups: Groups, series: Series) -> str:
    """The picture in words, for who does not see it."""
    what = series.bars if series.bars is not None else series.dots
    if what is None or not len(what):
        return ""
    first = np.argsort(-what, kind="stable")[:3]
    most = ", ".join(f"{groups.labels[i]} {percent(float(what[i]))}" for i in first)
    return f"Shares of the values of {plain(name)}; the most frequent: {most}"
