"""Public columns: how often the values of some columns come together, from a table that is nobody's secret.

Nothing private enters: which columns there are follows from names, and every count from the public table. The
counts take the place of private ones of the same columns, so they need no noise and no budget.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from factored_mwem.domain.attribute import Attribute
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import InputError, quoted_names, shown
from factored_mwem.files.files import sha256

MOST_CELLS = 2**22
"""Combinations of values of all public columns."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicColumns:
    """The `attributes` of public columns, and the rows of the public table by their codes, `counts: int64`
    with an axis for each. `table`: its name; `sha256`: of its file, or else of the counts.
    """

    attributes: tuple[Attribute, ...]
    counts: np.ndarray
    table: str
    sha256: str

    @classmethod
    def given(cls, names: Any, table: Any, declared: Domain | None, *, beside: Any) -> Self:
        """As a request names them, `beside` its private table. Columns that are not `declared` have the
        public table's values. Raises InputError if that lacks a column or rows.
        """
        if names is None or table is None:
            raise InputError(
                "--public-columns and --public go together: which columns, and the table that has them"
            )
        if isinstance(names, str) or not list(names) or len(set(names)) < len(list(names)):
            raise InputError(f"public_columns={shown(names)}: must be a list of different column names")
        if table is beside or any(_holds(path, _paths(table)) for path in _paths(beside)):
            raise InputError("--public names the private table itself, whose counts are not public")
        return cls._read(table, list(names), declared)

    @classmethod
    def _read(cls, source: Any, names: list[str], declared: Domain | None) -> Self:
        from factored_mwem.tables.backends.opening import open_source
        from factored_mwem.tables.codes.codec import encode, fit_columns
        from factored_mwem.tables.codes.drafted import drafted_attribute
        from factored_mwem.tables.codes.kinds import kind_of
        from factored_mwem.tables.codes.profile import profile
        from factored_mwem.tables.inputs.text_form import Reading

        table = open_source(source, Reading(names=names)).read_here("a public table is read by this program")
        for name in names:
            if name not in table.schema.names:
                has = quoted_names(table.schema.names)
                raise InputError(f"the public table has no column {name!r}; it has {has}")
        known = [declared[name] for name in names if declared is not None and name in declared]
        others = [name for name in names if declared is None or name not in declared]
        seen = profile(table, others) if others else {}
        drafted = [
            drafted_attribute(name, column, None if table.text else kind_of(table.schema.field(name)))
            for name, column in seen.items()
        ]
        domain, _ = fit_columns(Domain([*known, *drafted]), table, names)
        if domain.cells > MOST_CELLS:
            raise InputError(
                f"the public columns have {domain.cells:,} combinations of values, more than {MOST_CELLS:,}: "
                "name fewer, or declare fewer bins"
            )
        counts = np.zeros(domain.cells, dtype=np.int64)
        for batch in table.batches(domain.names):
            codes = [
                encode(a, column).astype(np.int64) for a, column in zip(domain, batch.columns, strict=True)
            ]
            counts += np.bincount(np.ravel_multi_index(codes, domain.shape), minlength=domain.cells)
        if not counts.any():
            raise InputError("the public table has no rows")
        path = Path(source) if isinstance(source, str | Path) and Path(source).is_file() else None
        form = json.dumps(domain.to_dict(), sort_keys=True).encode()
        digest = hashlib.sha256(form + counts.tobytes()).hexdigest() if path is None else sha256(path)
        name = path.name if path is not None else "a table without a file"
        return cls(tuple(domain), counts.reshape(domain.shape), name, digest)

    @property
    def names(self) -> list[str]:
        return [attribute.name for attribute in self.attributes]

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    @property
    def facts(self) -> dict[str, Any]:
        """What a record says of them."""
        return {"columns": self.names, "table": self.table, "sha256": self.sha256, "rows": self.rows}

    def shares_of(self, names: Sequence[str]) -> np.ndarray:
        """float64: how often these columns' codes come together, an axis for each, in this order."""
        at = [self.names.index(name) for name in names]
        others = tuple(a for a in range(len(self.names)) if a not in at)
        summed = self.counts.sum(axis=others) / self.rows
        return np.transpose(summed, [sorted(at).index(a) for a in at])

    def beside(self, declared: Domain) -> Domain:
        """A declared domain with the columns it lacks. Raises InputError for a rule about one of them."""
        for rule in declared.rules:
            if taken := sorted(set(rule.columns) & set(self.names)):
                how = "leave out the rule, or that public column"
                raise InputError(f"a rule of the domain is about {taken[0]!r}, which is public; {how}")
        more = [each for each in self.attributes if each.name not in declared]
        return declared.holding([*declared, *more])


def _paths(source: Any) -> set[str]:
    """The files and folders that a table is read from, if it is of this machine."""
    each = [source] if isinstance(source, str | Path) else source if isinstance(source, list | tuple) else []
    named = [str(one) for one in each if isinstance(one, str | Path)]
    return {os.path.realpath(path) for one in named for path in (one, *glob.glob(one, recursive=True))}


def _holds(path: str, others: set[str]) -> bool:
    """Whether one of the others is this path, or lies in it."""
    return any(other == path or other.startswith(path + os.sep) for other in others)
