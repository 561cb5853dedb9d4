"""Evaluate: NOT PRIVATE. A synthetic table against the real one; its numbers must not be published."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.dialect import OUR_OWN, PLAIN, Dialect
from factored_mwem.domain.domain import Clique, Domain
from factored_mwem.errors import InputError
from factored_mwem.files.files import read_text
from factored_mwem.owner.evaluation.binned_errors import CodedPair, RequestErrors
from factored_mwem.owner.evaluation.correlations import CorrelationError, correlation_errors
from factored_mwem.owner.evaluation.neutral_bins import neutral_codes
from factored_mwem.owner.evaluation.people import PeopleErrors, Persons, WhosePeople, people_of_release
from factored_mwem.owner.evaluation.readings import ReadColumn, comparable, read_alike, read_columns
from factored_mwem.owner.evaluation.value_errors import ColumnErrors, column_errors
from factored_mwem.pipeline.saving import model_file
from factored_mwem.pipeline.saving.model_fields import Contents
from factored_mwem.tables.codes.parsing import spelt
from factored_mwem.tables.codes.spelling import respelt
from factored_mwem.tables.inputs.source import Table, is_text_file, open_table
from factored_mwem.tables.inputs.text_form import Records
from factored_mwem.workload.workload import Workload

USUAL_ORDER = 3
"""The highest order of marginals that are compared where nobody gives one and there are so many columns."""
SHOWN_MARGINALS = 10
"""How many of the worst are listed."""
ALONE = "its values are compared, its marginals are not"
Bins = Literal["neutral", "domain"]


@dataclass(frozen=True, slots=True)
class Errors:
    """NOT PRIVATE. How far a synthetic table is off: its marginals inside bins, and its values without any.

    Errors of marginals are L1 distances, from 0 to 2, between the normalised marginals of the two tables.

    >>> import pyarrow as pa
    >>> from factored_mwem import evaluate
    >>> errors = evaluate(pa.table({"age": [0, 1] * 9}), pa.table({"age": [0, 0]}), 1)
    >>> errors.worst
    ((('age',), 1.0),)
    >>> errors.columns[0].distance, errors.columns[0].spread.mean
    (1.0, (0.5, 0))
    """

    by_order: dict[int, tuple[float, float]]
    """Mean and worst, by how many attributes a marginal has."""
    worst: tuple[tuple[Clique, float], ...]
    """The worst marginals."""
    asked: tuple[RequestErrors, ...] = ()
    """For each request of a workload: the request in words, how many questions it has, and the mean and the
    worst error (of shares; over a table their sum).
    """
    bins: Bins = "neutral"
    """What the marginals are over. `neutral`: bins with equal shares of the real rows, with a bin of its own
    for each popular number; the same for every release. `domain`: the codes of the domain passed to
    `evaluate`.
    """
    columns: tuple[ColumnErrors, ...] = ()
    """The values of each column, without bins."""
    correlations: tuple[CorrelationError, ...] = ()
    """The pairs of columns of numbers whose correlations differ most."""
    notes: tuple[str, ...] = ()
    """What could not be compared, and why."""
    people: PeopleErrors | None = None
    """The comparison of people, if a column of both tables names them."""

    @property
    def facts(self) -> dict[str, Any]:
        """Plain values for scripts, ready for JSON."""
        by_order = {k: {"mean": mean, "worst": worst} for k, (mean, worst) in self.by_order.items()}
        questions = [
            {"asked": words, "questions": count, "mean": mean, "worst": worst}
            for words, count, mean, worst in self.asked
        ]
        columns = [
            asdict(column) | {"popular": [popular._asdict() for popular in column.popular]}
            for column in self.columns
        ]
        return {
            "private": False,
            "bins": self.bins,
            "by_order": by_order,
            "asked": questions,
            "worst": self.worst,
            "columns": columns,
            "correlations": [pair._asdict() for pair in self.correlations],
            "notes": self.notes,
            "people": self.people.facts if self.people is not None else None,
        }


def evaluate(
    real: Any,
    synthetic: Any,
    order: int | None = None,
    *,
    domain: Domain | str | Path | None = None,
    columns: Sequence[str] | None = None,
    workload: Workload | None = None,
    records: Records = "checked",
    dialect: Dialect = PLAIN,
    **people: Unpack[WhosePeople],
) -> Errors:
    """NOT PRIVATE. How far a synthetic table is off: its values, and all marginals of up to `order` columns.

    By default 3, or as many as the tables share. And the errors of the other requests in `workload`: labels,
    cubes, ranges, parities. Marginals are over bins that the real table alone decides, or over the codes of
    `domain`: a Domain, or the path of a domain file, a release's manifest or a model file. `privacy_id`: the
    column of both tables that names people, by default what the manifest beside a release of people says;
    `order_by`: the column in whose order a person's rows are compared, else they are as they stand. `records`
    says what a record of a text file is, see Policy, and `dialect`, with that of `domain`, how the real one
    is written. Raises InputError if the tables share fewer than `order` columns.

    >>> import pyarrow as pa
    >>> from factored_mwem import evaluate
    >>> people = pa.table({"age": [31, 45, 31, 62], "sex": ["F", "M", "M", "F"]})
    >>> evaluate(people, people.slice(0, 2), 2).by_order[1]  # mean and worst, of single columns
    (0.25, 0.5)
    """
    if records != "checked" and not any(map(is_text_file, (real, synthetic))):
        how = f"--{records} says how the lines of a text file are read"
        raise InputError(f"{how}; leave it out with typed tables")
    if domain is not None and not isinstance(domain, Domain):
        domain = domain_from(Path(domain))
    dialect = dialect.beside(domain.dialect if domain is not None else None)
    tables = (_open(real, records, dialect), _open(synthetic, records, OUR_OWN))
    names, notes = _shared(tables, columns)
    persons = Persons.of(tables, people_of_release(synthetic), **people)
    if persons is not None and persons.column in names:
        names = [name for name in names if name != persons.column]
        notes.append(f"{persons.column!r} names the people of a table, so its values are not compared")
    if columns is not None and domain is not None:
        domain.project(columns)  # it raises an error that says what is missing
    ours, theirs = (read_columns(table, names) for table in tables)
    compared = compare(ours, theirs, domain, persons)
    if not compared.attributes:
        raise InputError("; ".join(["the tables have no column that can be compared", *compared.notes]))
    order = min(USUAL_ORDER, len(compared.attributes)) if order is None else order
    if not 1 <= order <= len(compared.attributes):
        raise InputError(f"--marginals {order}: the tables share {len(compared.attributes)} attributes")
    coded = CodedPair(Domain(compared.attributes), *compared.codes)
    by_order, errors = coded.by_order(order)
    return Errors(
        by_order,
        tuple(errors[:SHOWN_MARGINALS]),
        coded.errors_of(workload) if workload is not None else (),
        "neutral" if domain is None else "domain",
        tuple(compared.columns),
        correlation_errors(compared.numbers),
        (*notes, *compared.notes),
        persons.errors if persons is not None else None,
    )


def domain_from(path: Path) -> Domain:
    """The domain of a domain file, or of a release: the one in its manifest or its model file."""
    if not path.is_file():
        raise InputError(f"no domain file {path}")
    with open(path, "rb") as file:
        begins = file.read(9)
    if begins[:2] == b"PK" or begins[8:] == b"{":  # zipped, or the list of a model file's arrays
        return model_file.load(path, Contents).domain
    with contextlib.suppress(ValueError, RecursionError):
        data = json.loads(read_text(path, "domain file"))
        if isinstance(data, dict) and "manifest_version" in data:
            return Domain.from_dict(data.get("domain"), where=f"the manifest {path}")
    return Domain.load(path)


def _open(source: Any, records: Records, dialect: Dialect) -> Table:
    """The table; `records` is for those of the two that are text files."""
    table = open_table(source, records if is_text_file(source) else "checked", dialect)
    return respelt(table, dialect, None)


def _shared(tables: tuple[Table, Table], columns: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """(names, notes): the columns that can be compared, by their types, in the synthetic table's order."""
    for table, name in itertools.product(tables, columns or ()):
        table.check_column(name)
    schemas, notes = [table.schema for table in tables], []
    for here, there, which in ((*schemas, "real"), (*schemas[::-1], "synthetic")):
        alone = [name for name in here.names if name not in there.names]
        if columns is None and alone:
            notes.append(f"only in the {which} table, and not compared: {', '.join(map(repr, alone))}")
    names = []
    for name in schemas[1].names:
        if name not in schemas[0].names or (columns is not None and name not in columns):
            continue
        strange = [kind for kind in (s.field(name).type for s in schemas) if not comparable(kind)]
        if strange:
            notes.append(f"column {name!r} is {spelt(strange[0])}, which cannot be compared")
        else:
            names.append(name)
    if not names:
        raise InputError("; ".join(["the tables have no column that can be compared", *notes]))
    return names, notes


@dataclass(slots=True, repr=False)
class Compared:
    """NOT PRIVATE. The results for the columns so far."""

    attributes: list[Attribute] = field(default_factory=list)
    codes: tuple[list[np.ndarray], list[np.ndarray]] = field(default_factory=lambda: ([], []))
    columns: list[ColumnErrors] = field(default_factory=list)
    numbers: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add_codes(self, attribute: Attribute, ours: np.ndarray, theirs: np.ndarray) -> None:
        self.attributes.append(attribute)
        for codes, column in zip(self.codes, (ours, theirs), strict=True):
            codes.append(column)


def compare(
    ours: dict[str, ReadColumn],
    theirs: dict[str, ReadColumn],
    domain: Domain | None = None,
    people: Persons | None = None,
) -> Compared:
    """NOT PRIVATE. The errors of every column's values; its codes of the domain, else in neutral bins.
    `people` gets the same columns, in neutral bins.
    """
    compared = Compared()
    for name in list(ours):
        pair = ours.pop(name), theirs.pop(name)
        declared = domain[name] if domain is not None and name in domain else None
        try:
            kind, unit, *values = read_alike(*pair, None if declared is None else declared.missing_texts)
        except InputError as why:
            compared.notes.append(f"column {name!r} {why}")
            continue
        compared.columns.append(column_errors(name, kind, unit, (values[0], values[1])))
        if kind != "text":
            compared.numbers[name] = (values[0].numbers, values[1].numbers)
        neutral = neutral_codes(name, kind, *values) if domain is None or people is not None else None
        if people is not None and neutral is not None:
            people.compare(name, (values[0], values[1]), neutral[1:], unit)
        if domain is None and neutral is not None:
            compared.add_codes(*neutral)
        elif declared is None:
            compared.notes.append(f"column {name!r} is not in the domain; {ALONE}")
        elif all(column.suits(declared) for column in pair):
            compared.add_codes(declared, *(column.codes(declared) for column in pair))
        else:
            what = f"column {name!r} cannot be read as the domain's {declared.type}"
            compared.notes.append(f"{what}; {ALONE}")
    return compared
