"""Packages: NOT PRIVATE. How far released tables that belong together are from the real ones: each by itself,
how many rows hang on a row, and the ties with all that a row hangs on.

Both packages are seen as a release sees them: rows that lead to no root are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.owner.evaluation.binned_errors import CodedPair
from factored_mwem.owner.evaluation.evaluate import USUAL_ORDER, compare
from factored_mwem.owner.evaluation.readings import read_columns
from factored_mwem.pipeline.linked_views import ROOT, LinkedViews, beside, count_of, own_columns
from factored_mwem.request.data_package import read_package
from factored_mwem.request.package import LinkedTable, Package
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.tables.inputs.text_form import Reading

DESCRIPTOR = "datapackage.json"
MOST = 2**20
"""Rows that are counted on one row; more count as so many."""


@dataclass(frozen=True, slots=True)
class TieErrors:
    """NOT PRIVATE. Of pairs of a column and one of an ancestor: the mean and the worst L1 distance (0 to 2),
    the worst pair, and how far Cramer's V of the real and of the released rows are apart, the mean and the
    most.
    """

    table: str
    pairs: int
    mean: float
    worst: float
    worst_pair: tuple[str, str]
    association: float
    worst_association: float


@dataclass(frozen=True, slots=True)
class TableErrors:
    """NOT PRIVATE. Of one table: its `rows`, real and released; the mean and the worst L1 distance of its own
    marginals `by_order`; of each child the total variation (0 to 1) of how many rows hang on a row; the ties
    with each table that it hangs on, the nearest first; and what could not be compared.
    """

    rows: tuple[int, int]
    by_order: dict[int, tuple[float, float]]
    numbers: dict[str, float]
    ties: tuple[TieErrors, ...]
    notes: tuple[str, ...]


def evaluate_package(
    real: Package, released: Path, order: int | None = None, reading: Reading | None = None
) -> dict[str, TableErrors]:
    """NOT PRIVATE. The errors of each private table of a package that was released into the folder
    `released`, over neutral bins; of marginals of up to `order` of its own columns, by default 3.
    `reading`: how the real tables are written. Raises InputError if the folder holds another package.
    """
    path = released / DESCRIPTOR if released.is_dir() else released
    if not path.is_file():
        raise InputError(f"{released} holds no {DESCRIPTOR}: name the folder of the released package")
    made = read_package(path)
    if made.without_rows.private != real.without_rows.private:
        names = [", ".join(each.name for each in package.private) for package in (real, made)]
        raise InputError(
            f"the packages are not of the same tables and keys: {names[0]} here, {names[1]} in {released}"
        )
    views = _views(real, reading or Reading()), _views(made, Reading())
    order = USUAL_ORDER if order is None else order
    return {each.name: _table_errors(real, each, views, order) for each in real.private}


def _views(package: Package, reading: Reading) -> LinkedViews:
    tables = {
        each.name: open_source(each.source, reading).read_here("evaluate reads a package's tables by itself")
        for each in package.private
    }
    views = LinkedViews.of(package, tables)
    views.read(tables)
    return views


def _table_errors(
    package: Package, table: LinkedTable, views: tuple[LinkedViews, LinkedViews], order: int
) -> TableErrors:
    def columns(of: LinkedTable) -> list[str]:
        names = [set(own_columns(of, view.schemas[of.name].names)) for view in views]
        both = [name for name in views[0].schemas[of.name].names if name in names[0] & names[1]]
        return [*both, *(count_of(child.name) for child in package.children(of.name))]

    numbers = views[0].number(table), views[1].number(table)
    if 0 in numbers:
        where = "here" if not numbers[0] else "in the release"
        raise InputError(f"no row of {table.name!r} leads to a root {where}; there is nothing to compare")
    own, above = columns(table), list(package.ancestors(table))
    of_above = {each.name: [beside(each.name, name) for name in columns(each)] for each in above}
    most = dict.fromkeys((each.name for each in package.private), MOST)
    known = [*own, *itertools.chain(*of_above.values())]
    pair = [view.view(table, known, most).table for view in views]
    rows = [read_columns(each, known or [ROOT]) for each in pair]
    compared = compare(rows[0], rows[1])
    coded = CodedPair(Domain(compared.attributes), *compared.codes)
    names = coded.domain.names
    mine = [a for a, name in enumerate(names) if name in own]
    alone = CodedPair(
        Domain([compared.attributes[a] for a in mine]),
        *([codes[a] for a in mine] for codes in compared.codes),
    )
    ties = [_ties(coded, mine, name, of_above[name]) for name in of_above]
    children = [(child.name, count_of(child.name)) for child in package.children(table.name)]
    exact = {each.name: each.distance for each in compared.columns}
    return TableErrors(
        numbers,
        alone.by_order(min(order, len(mine)))[0] if mine else {},
        {name: (exact.get(column) or 0.0) / 2 for name, column in children},
        tuple(each for each in ties if each is not None),
        tuple(compared.notes),
    )


def _ties(coded: CodedPair, own: list[int], table: str, above: list[str]) -> TieErrors | None:
    """With the columns `above` of one ancestor; None where there are none."""
    others = [a for a, name in enumerate(coded.domain.names) if name in above]
    pairs = list(itertools.product(own, others))
    if not pairs:
        return None
    errors = [coded.distance((min(pair), max(pair))) for pair in pairs]
    apart = [
        abs(cramers_v(coded.domain, coded.ours, pair) - cramers_v(coded.domain, coded.theirs, pair))
        for pair in pairs
    ]
    worst = int(np.argmax(errors))
    names = tuple(coded.domain.names[a] for a in pairs[worst])
    return TieErrors(
        table, len(pairs), float(np.mean(errors)), max(errors), (names[0], names[1]),
        float(np.mean(apart)), max(apart),
    )  # fmt: skip


def cramers_v(domain: Domain, codes: list[np.ndarray], pair: tuple[int, int]) -> float:
    """The association (0 to 1) of two columns, from their `codes`."""
    first, second = pair
    size = domain.shape[second]
    cells = codes[first].astype(np.int64) * size + codes[second]
    table = np.bincount(cells, minlength=domain.shape[first] * size).reshape(-1, size)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return 0.0
    shares = table / table.sum()
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return float(np.sqrt(((shares - expected) ** 2 / expected).sum() / (min(table.shape) - 1)))


def facts_of(errors: Mapping[str, TableErrors]) -> dict[str, Any]:
    """Plain values for scripts, ready for JSON."""
    return {"private": False, "tables": {name: asdict(each) for name, each in errors.items()}}
