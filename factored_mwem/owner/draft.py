"""Draft: NOT PRIVATE. A first domain read off the data, for a person to review and correct.

The same rule holds for all columns. Few values become categories, whatever their type. Otherwise popular
numbers and moments (zeros, sentinels, spikes) become special values, and the rest is cut into bins of about
equal mass at round places. Texts that few rows hold are never listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factored_mwem.domain.dialect import PLAIN, Dialect
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError
from factored_mwem.owner.questions import LOOKED_AT, SeenColumn, questions_of
from factored_mwem.owner.relations import relations
from factored_mwem.tables.codes.drafted import drafted_attribute
from factored_mwem.tables.codes.kinds import KINDS, kind_of
from factored_mwem.tables.codes.profile import ColumnProfile, profile
from factored_mwem.tables.codes.spelling import respelt
from factored_mwem.tables.inputs.source import open_table
from factored_mwem.tables.inputs.text_form import Records


def draft(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    records: Records = "checked",
    dialect: Dialect = PLAIN,
) -> Domain:
    """NOT PRIVATE: a first domain whose values, bounds and nulls are those of the data.

    Review every field, and widen bounds to what is publicly known; `Domain.questions` says what is to be
    decided, most urgent first. No release takes the draft before `Domain.reviewed()`, or before a person
    removes "draft" from its file. `records`: see Policy; `dialect`: how a text file is written, which the
    domain then says, too. Raises InputError if the table cannot be read, or has no rows.

    >>> import pyarrow as pa
    >>> from factored_mwem import draft
    >>> people = pa.table({"age": [31, 45], "sex": ["F", "M"]})
    >>> domain = draft(pa.concat_tables([people] * 10))
    >>> domain["sex"].categories, domain["age"].categories  # of the data: one family's, maybe
    (('F', 'M'), (31, 45))
    """
    raw = open_table(source, records, dialect, columns)
    table = respelt(raw, dialect, None)
    for name in columns or ():
        table.check_column(name)
    names = [name for name in table.schema.names if columns is None or name in columns]
    profiles = profile(table, names)
    if not any(len(column.counts) for column in profiles.values()):
        raise InputError("the table has no rows to draft a domain from")
    attributes = [
        drafted_attribute(name, profiles[name], None if table.text else kind_of(table.schema.field(name)))
        for name in names
    ]
    texts = [a for a in attributes if a.type == "string"]
    if table is not raw and texts:  # a declared domain reads text as it is written
        drafted = profile(respelt(raw, dialect, Domain(texts)), [a.name for a in texts])
        profiles |= drafted
        attributes = [
            drafted_attribute(a.name, drafted[a.name], None) if a.name in drafted else a for a in attributes
        ]
    attributes, rules = relations(table, attributes, profiles)
    seen = {name: _seen(column) for name, column in profiles.items()}
    questions = questions_of(attributes, seen, text=table.text, short_years=dialect.short_years)
    notation = None if dialect == PLAIN else dialect
    return Domain(attributes, draft="the domain", rules=rules, dialect=notation, questions=questions)


def _seen(column: ColumnProfile) -> SeenColumn:
    texts = tuple(list(column.texts(("marker",)))[:LOOKED_AT])
    coded = bool(column.votes()[KINDS.index("code")])
    return SeenColumn(texts, coded, bool(2 * (column.counts == 1).sum() > column.counts.sum()))
