"""Tables to test on: all tiny ones with all their neighbours, and small ones as a user has them."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from support.marks import others_slow

from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.tables.inputs.source import Table as Source

SHAPE = (2, 3)
CELLS = 6
Table = tuple[int, ...]
"""Rows as cell numbers of the 2 x 3 domain, ascending."""


def tables(rows: int) -> list[Table]:
    """Every table of at most `rows` rows."""
    return [t for n in range(rows + 1) for t in itertools.combinations_with_replacement(range(CELLS), n)]


@cache
def neighbours(relation: Neighbours, contributions: int) -> list[tuple[Table, Table]]:
    """All ordered pairs of neighbours of at most 3 rows: a person is any 1 to k rows."""
    people = tables(contributions)[1:]
    pairs: set[tuple[Table, Table]] = set()
    for rest in tables(2):
        if relation is Neighbours.ADD_REMOVE:
            for person in people:
                with_person = tuple(sorted(rest + person))
                pairs |= {(rest, with_person), (with_person, rest)}
        else:
            pairs |= {
                (tuple(sorted(rest + one)), tuple(sorted(rest + other))) for one in people for other in people
            }
    return sorted((a, b) for a, b in pairs if len(a) <= 3 and len(b) <= 3)


def histogram(table: Table) -> np.ndarray:
    counted = Counter(table)
    return np.array([counted[c] for c in range(CELLS)])


UNITS = [Unit(relation, k) for relation in Neighbours for k in (1, 2)]
every_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda u: f"{u.neighbours}-{u.contributions}")
one_row_units = pytest.mark.parametrize(
    "unit",
    others_slow(UNITS, lambda u: u.contributions == 1),
    ids=lambda u: f"{u.neighbours}-{u.contributions}",
)
"""For what takes long: those of two rows are slow."""


def small_table(rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(11)
    age, colour = rng.integers(18, 80, rows), rng.choice(["red", "green", "blue"], rows, p=[0.5, 0.3, 0.2])
    owns = (age + rng.integers(0, 40, rows)) > 60
    return pa.table({"age": age, "colour": colour, "owns": owns, "score": rng.normal(5, 2, rows)})


def _small_domain(age_bins: int, score_bins: int) -> Domain:
    ages, scores = {"minimum": 18, "maximum": 79, "required": True}, {"minimum": 0, "maximum": 10}
    fields = [
        {"name": "age", "type": "integer", "bins": age_bins, "constraints": ages},
        {"name": "colour", "type": "string", "categories": ["red", "green", "blue"]},
        {"name": "owns", "type": "boolean", "constraints": {"required": True}},
        {"name": "score", "type": "number", "bins": score_bins, "constraints": scores},
    ]
    return Domain.from_dict({"fields": fields})


SMALL, WIDE = _small_domain(6, 4), _small_domain(31, 40)
"""`WIDE`: the same with so many bins that attributes get coarser levels."""


def as_text(table: pa.Table) -> Source:
    """The table as a CSV file would give it: every column text, nulls empty."""
    rows = pa.table(
        {n: [("" if v is None else str(v).lower()) for v in table[n].to_pylist()] for n in table.schema.names}
    )
    return Source(rows.schema, True, lambda columns: iter(rows.select(list(columns)).to_batches()))
