"""Relations: NOT PRIVATE. Columns that follow from others in every row of a table (copies, parts of times,
digits, sums, products, the same in another unit, tables), for a draft to propose as rules.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.derived import ends_of
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.functions import EQUAL, FUNCTIONS
from factored_mwem.domain.rules import Arithmetic, Rule
from factored_mwem.errors import InputError
from factored_mwem.owner.tabled import tables_in
from factored_mwem.tables.codes.broken import (
    LINEAR,
    LINEAR_MAPS,
    PRODUCT,
    SUM,
    Hypothesis,
    broken,
    count_broken,
)
from factored_mwem.tables.codes.kinds import MOMENTS, NUMBERS
from factored_mwem.tables.codes.notation import is_notation
from factored_mwem.tables.codes.profile import ColumnProfile
from factored_mwem.tables.codes.rest import Known
from factored_mwem.tables.inputs.table import Table

SOME_ROWS = 2000
"""The first rows, which rule out most hypotheses."""
LEAST = 3
"""Least number of values of a column that follows from another; with fewer, columns agree by chance."""
MOST_NUMBERS = 16
"""Columns of numbers among which arithmetic is looked for: of more, the first."""


def relations(
    table: Table, attributes: Sequence[Attribute], profiles: Mapping[str, ColumnProfile]
) -> tuple[list[Attribute], list[Rule]]:
    """NOT PRIVATE: the rules that no row breaks and that the attributes can keep, one for each column; and
    the attributes, wide enough for every sum and product.
    """
    known = {a.name: _known(a) for a in attributes}
    some = next((batch for batch in table.batches(list(known)) if batch.num_rows), None)
    if some is None:
        return list(attributes), []
    candidates = [a for a in attributes if len(profiles[a.name].counts) >= LEAST]
    cells = dict(zip(known, some.slice(0, SOME_ROWS).columns, strict=True))
    guesses = list(_hypotheses(candidates, table.schema))
    kept = zip(guesses, broken(cells, known, guesses).tolist(), strict=True)
    guesses = [each for each, rows in kept if not rows]
    kept_attributes, rules = list(attributes), list[Rule]()
    if guesses:
        used = dict.fromkeys(name for each in guesses for name in each.columns)
        counts = count_broken(table, {name: known[name] for name in used}, guesses)
        for each, rows in zip(guesses, counts.tolist(), strict=True):
            wider = _widened(each.rule, kept_attributes)
            if not rows and _fits(wider, [*rules, each.rule]):
                kept_attributes = wider
                rules.append(each.rule)
    counted = {a.name: profiles[a.name].counts for a in attributes}
    for rule in tables_in(table, kept_attributes, counted, rules):
        if _fits(kept_attributes, [*rules, rule]):
            rules.append(rule)
    return kept_attributes, rules


def _known(attribute: Attribute) -> Known:
    """How the cells of a column are read."""
    if attribute.type in ("integer", "number"):
        kind = "integer" if attribute.decimals is not None else attribute.type
        notation = attribute.format if is_notation(attribute.format) else None
        return Known(NUMBERS, kind, 10.0 ** (attribute.decimals or 0), format=notation)
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
    yield from _arithmetic(attributes)


def _arithmetic(attributes: Sequence[Attribute]) -> Iterator[Hypothesis]:
    fixed = [a for a in attributes if a.type == "integer" or (a.type == "number" and a.decimals is not None)]
    numbers = [a for a in fixed if not a.sentinels][:MOST_NUMBERS]
    for (times, plus), (x, y) in itertools.product(LINEAR_MAPS, itertools.permutations(numbers, 2)):
        yield Hypothesis(LINEAR, y.name, (x.name,), times, plus)
    for z in numbers:
        for x, y in itertools.combinations([a for a in numbers if a is not z], 2):
            if max(x.decimals or 0, y.decimals or 0) <= (z.decimals or 0):
                yield Hypothesis(SUM, z.name, (x.name, y.name))
            yield Hypothesis(PRODUCT, z.name, (x.name, y.name))


def _widened(rule: Rule, attributes: Sequence[Attribute]) -> list[Attribute]:
    """The attributes, of which that of a sum or product has bins for all that its parts may come to."""
    if not isinstance(rule, Arithmetic):
        return list(attributes)
    by_name = {a.name: a for a in attributes}
    target = by_name[rule.columns[0]]
    steps = 10 ** (target.decimals or 0)
    least, most = ends_of(rule, [by_name[name] for name in rule.of])
    low, high = math.floor(least * steps), math.ceil(most * steps)
    old = () if target.categorical else target.edges or ()
    inside = {place for edge in old if low < (place := round(float(edge) * steps)) < high}
    facts = target.model_dump(by_alias=True, exclude_unset=True) | {"type": target.type}
    facts = {
        key: facts[key]
        for key in ("name", "type", "format", "decimals", "zeros", "constraints")
        if key in facts
    }
    if low < high:
        cuts = [low, *sorted(inside), high]
        edges = [cut / steps for cut in cuts] if target.type == "number" else cuts
        facts |= {"constraints": {"required": target.constraints.required}, "edges": edges}
        by_name[target.name] = Attribute.model_validate(facts)
    return list(by_name.values())


def _fits(attributes: Sequence[Attribute], rules: Sequence[Rule]) -> bool:
    """Whether these rules make a valid domain."""
    try:
        Domain(attributes, rules=rules)
    except InputError:
        return False
    return True
