"""Relations: NOT PRIVATE. Columns that follow from another in every row of a table (copies, parts of times,
digits), for a draft to propose as rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.functions import EQUAL, FUNCTIONS
from factored_mwem.domain.rules import Rule
from factored_mwem.errors import InputError
from factored_mwem.tables.codes.broken import Hypothesis, broken, count_broken
from factored_mwem.tables.codes.kinds import MOMENTS, NUMBERS
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.codes.rest import Known
from factored_mwem.tables.inputs.table import Table

SOME_ROWS = 2000
"""The first rows, which rule out most hypotheses."""
LEAST = 3
"""Least number of values of a column that follows from another; with fewer, columns agree by chance."""


def relations(
    table: Table, attributes: Sequence[Attribute], profiles: Mapping[str, ColumnProfile]
) -> list[Rule]:
    """NOT PRIVATE: the rules that no row breaks and that the attributes can keep, one for each column."""
    known = {a.name: _known(a) for a in attributes}
    some = next((batch for batch in table.batches(list(known)) if batch.num_rows), None)
    candidates = [a for a in attributes if len(profiles[a.name].counts) >= LEAST]
    guesses = list(_hypotheses(candidates, table.schema))
    if some is None or not guesses:
        return []
    cells = dict(zip(known, some.slice(0, SOME_ROWS).columns, strict=True))
    guesses = [
        each for each, rows in zip(guesses, broken(cells, known, guesses).tolist(), strict=True) if not rows
    ]
    if not guesses:
        return []
    used = dict.fromkeys(name for each in guesses for name in each.columns)
    counts = count_broken(table, {name: known[name] for name in used}, guesses)
    rules: list[Rule] = []
    for each, rows in zip(guesses, counts.tolist(), strict=True):
        if not rows and _fits(attributes, [*rules, each.rule]):
            rules.append(each.rule)
    return rules


def _known(attribute: Attribute) -> Known:
    """How the cells of a column are read."""
    if attribute.type in ("integer", "number"):
        return Known(NUMBERS, attribute.type, 1.0)
    if attribute.type in ("date", "datetime"):
        return Known(MOMENTS, attribute.type, 1.0)
    return Known((), "string", 1.0)


def _hypotheses(attributes: Sequence[Attribute], schema: pa.Schema) -> Iterator[Hypothesis]:
    for one, other in itertools.combinations(attributes, 2):
        if one.type == other.type and schema.field(one.name).type == schema.field(other.name).type:
            yield Hypothesis(EQUAL, other.name, (one.name,))
    for name, function in FUNCTIONS.items():
        for source, target in itertools.permutations(attributes, 2):
            if source.type in function.of and target.type == "integer":
                yield Hypothesis(name, target.name, (source.name,))


def _fits(attributes: Sequence[Attribute], rules: Sequence[Rule]) -> bool:
    """Whether these rules make a valid domain."""
    try:
        Domain(attributes, rules=rules)
    except InputError:
        return False
    return True
