"""Against: NOT PRIVATE. A release beside the real table, for pictures: both in the codes of its domain."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from factored_mwem.documents.charts import Series, across
from factored_mwem.documents.columns import drawn
from factored_mwem.documents.groups import groups_of
from factored_mwem.documents.page import fixed, percent, plain
from factored_mwem.domain.dialect import OUR_OWN, Dialect
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.owner.evaluation.binned_errors import CodedPair
from factored_mwem.owner.evaluation.readings import read_alike, read_columns
from factored_mwem.tables.codes.decode import labels_of
from factored_mwem.tables.codes.spelling import respelt
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.inputs.text_form import Records

DRAWN, CELLS = 6, 10
"""Most of the worst marginals that are drawn, and most of their cells."""
MOST_PAIRS_CELLS = 2**20
"""Most cells of a pair of columns that is drawn."""
WIDE = 176
"""Room for the values of two columns."""


def coded_pair(
    domain: Domain, real: Any, synthetic: Any, records: Records, dialect: Dialect
) -> tuple[CodedPair, tuple[str, ...]]:
    """NOT PRIVATE. Both tables as codes of the columns of `domain` that they share, and notes on the rest."""
    tables = (
        respelt(open_table(real, records, dialect), dialect, None),
        open_table(synthetic, dialect=OUR_OWN),
    )
    names, notes = [], []
    for name in domain.names:
        missing = [name not in table.schema.names for table in tables]
        if any(missing):
            notes.append(f"column {name!r} is not in both tables")
        else:
            names.append(name)
    if not names:
        raise InputError("the table has no column of the release")
    ours, theirs = (read_columns(table, names) for table in tables)
    attributes = []
    for name in names:
        try:
            read_alike(ours[name], theirs[name], domain[name].missing_texts)
        except InputError as why:
            notes.append(f"column {name!r} {why}")
            continue
        if ours[name].suits(domain[name]) and theirs[name].suits(domain[name]):
            attributes.append(domain[name])
        else:
            notes.append(f"column {name!r} cannot be read as the domain's {domain[name].type}")
    codes = [[columns[a.name].codes(a) for a in attributes] for columns in (ours, theirs)]
    return CodedPair(Domain(attributes), *codes), tuple(notes)


def same_rows(pair: CodedPair) -> tuple[float, float, float]:
    """NOT PRIVATE. Shares of rows that are the same in all columns: of the real rows, those that can be
    matched one to one with released ones (*faithfulness*, at distance 0); of the released rows, those that no
    other released row is like (*face privacy*), and those of them that just one real row is like.
    """
    real, synthetic = (np.stack(codes, axis=1) for codes in (pair.ours, pair.theirs))
    kinds, place = np.unique(np.concatenate([real, synthetic]), axis=0, return_inverse=True)
    parts = np.split(place.ravel(), [len(real)])
    ours, theirs = (np.bincount(some, minlength=len(kinds)) for some in parts)
    alone, rows = theirs == 1, max(len(synthetic), 1)
    matched = float(np.minimum(ours, theirs).sum()) / max(len(real), 1)
    return matched, float(alone.sum()) / rows, float((alone & (ours == 1)).sum()) / rows


def singles(pair: CodedPair) -> Iterator[dict[str, Any]]:
    """NOT PRIVATE. Every column's values in both tables."""
    for at, attribute in enumerate(pair.domain):
        counts = [np.bincount(codes[at], minlength=attribute.size) for codes in (pair.ours, pair.theirs)]
        groups = groups_of(attribute, counts[0] + counts[1])
        real, synthetic = (groups.added(c) / max(int(c.sum()), 1) for c in counts)
        chart = drawn(groups, Series(real, beside=synthetic))
        facts = {"name": attribute.name, "error": pair.distance((at,)), "note": groups.note, "chart": chart}
        yield _picture(facts, groups.labels, real, synthetic)


def worst_pairs(pair: CodedPair) -> Iterator[dict[str, Any]]:
    """NOT PRIVATE. The pairs of columns with the largest errors, and the worst cells of each."""
    shape = pair.domain.shape
    pairs = [
        (a, b)
        for a, b in itertools.combinations(range(len(shape)), 2)
        if shape[a] * shape[b] <= MOST_PAIRS_CELLS
    ]
    errors = {each: pair.distance(each) for each in pairs}
    for a, b in sorted(errors, key=lambda each: -errors[each])[:DRAWN]:
        cells = shape[a] * shape[b]
        shares = [
            np.bincount(codes[a].astype(np.int64) * shape[b] + codes[b], minlength=cells) / len(codes[a])
            for codes in (pair.ours, pair.theirs)
        ]
        first = np.argsort(-np.abs(shares[0] - shares[1]), kind="stable")[:CELLS]
        values = [labels_of(pair.domain[pair.domain.names[p]]) for p in (a, b)]
        labels = [
            " / ".join(_label(of[i]) for of, i in zip(values, divmod(int(cell), shape[b]), strict=True))
            for cell in first
        ]
        real, synthetic = (part[first] for part in shares)
        facts = {
            "name": " x ".join(plain(pair.domain.names[p], 30) for p in (a, b)),
            "error": errors[a, b],
            "note": f"the {len(first)} cells that are the furthest off, of {cells:,}",
            "chart": across(labels, Series(real, beside=synthetic), WIDE),
        }
        yield _picture(facts, labels, real, synthetic)


def _label(value: object) -> str:
    return "missing" if value is None else plain(value, 13)


def _picture(
    facts: dict[str, Any], labels: Sequence[str], real: np.ndarray, synthetic: np.ndarray
) -> dict[str, Any]:
    """The picture of both tables' shares; `rows`: label, shares, and their difference."""
    rows = tuple(
        (label, *(fixed(100 * float(v), 2) for v in (r, s, s - r)))
        for label, r, s in zip(labels, real, synthetic, strict=True)
    )
    name = plain(facts["name"], 80)
    most = ", ".join(f"{labels[i]} {percent(float(real[i]))}" for i in np.argsort(-real, kind="stable")[:3])
    in_words = f"Real and synthetic shares of {name}; the most frequent real ones: {most}"
    return facts | {"name": name, "error": fixed(facts["error"], 4), "rows": rows, "in_words": in_words}
